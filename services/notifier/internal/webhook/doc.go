// Package webhook gives the webhooks of the send log to their endpoints. What a webhook is, and
// what its receiver may rely on, is in docs/webhooks.md; here is how its rows are handled.
//
// # Apart from mails
//
// It shares the tables send_log and hands with package sendlog, and nothing that could hold a
// mail up: it has loops, goroutines and statements of its own, of which three at most use the
// pool at once, and each has the pool's timeouts. A delivery is at least once. So its
// protocol is simpler: no slot, no quiet time, nothing superseded, no limit of marks.
//
// # States
//
//	planned, unknown ──▶ handed    the hand
//	planned, unknown ──▶ held      its endpoint is disabled (planned again when it is enabled)
//	planned, unknown ──▶ skipped   its endpoint is deleted
//	handed ──▶ sent      2xx
//	handed ──▶ planned   any other answer or none, within the tries; a fault of our own
//	handed ──▶ unknown   the lease is over, or cut off by us after the request was written: marked
//	handed ──▶ held      the last try; the endpoint was disabled meanwhile; nothing can be sent
//	handed ──▶ skipped   not sent, and the endpoint was deleted meanwhile
//	held, refused ──▶ planned (released, recovered) or skipped (discarded)
//	unknown, planned, held, refused ──▶ sent   a 2xx that comes late, as in package sendlog
//
// # The hand
//
// One transaction in one round trip, of one notifier at a time (a transaction's advisory lock,
// so that what is in hand can be counted): take, read, and when to look again. The take goes
// round the endpoints: everybody's first place comes before anybody's second, where an
// endpoint's places begin after what it has in hand already. An endpoint has at most its
// concurrency in hand, of all notifiers together, and its rate (a second's worth is saved up);
// endpoints whose last try failed share half of a notifier's connections. So one that hangs
// keeps its own deliveries waiting and nobody else's. URL, secrets and enabled are those of the
// moment: the next try of a delivery uses what is there then.
//
// # Results
//
// One transaction in one round trip, endpoints locked first, as everybody locks them: so what is
// written is judged by what the endpoint is, and nothing waits for one that was disabled or
// deleted meanwhile. Those that change are locked alone, the others shared with who plans. Two
// notifiers that change two endpoints at once may deadlock; the loser writes again. The same
// transaction keeps failing_since (the first failure since the last success), the rest that was
// asked for with Retry-After, and disables an endpoint that answers 410 or has only failed for five days: by
// notifier.disable_endpoint, with one notice to its owner, a mail like any other.
//
// # Clocks
//
// The lease is a minute and never renewed: a try, whatever the endpoint does, takes 15 s. What
// its sender did not write by then is swept: marked, and due at once. A sender that was frozen
// between hand and request sends nothing. Due times and leases are the database's; the
// timestamp in a request is this machine's at the try.
//
// # What fails, and what happens
//
//	endpoint hangs                  its share is busy; each try ends after 15 s, a failure
//	endpoint closes, refuses, 3xx   a failure; no redirect is followed
//	name leads to a private address a failure; nothing is connected (see [Rules])
//	sender dies or freezes          the lease ends; marked, tried again at once: maybe a copy
//	SIGTERM                         what is in flight gets DRAIN; then it is cut off: marked, due at once
//	PostgreSQL away                 nothing is handed; results wait, and their leases may end: maybe a copy
//	proxy away, no sockets left     put back for 10 s; no attempt, and not the endpoint's failure
//	answer to a result's commit lost   written again: it changes nothing
package webhook
