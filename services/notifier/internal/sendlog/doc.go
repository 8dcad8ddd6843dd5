// Package sendlog is the protocol of the send log: how a message that is owed becomes an
// e-mail at most once where that can be had, and a counted second copy where it can't.
//
// # The row is the job
//
// A message is a row of notifier.send_log, planned before its event is acknowledged, under a
// key that is unique: planning it again is nothing. A row that is planned or unknown and due
// may be taken by any sender that has an open connection. Channel, booking and role make its
// slot: one dialogue at a time, so that an older mail is never overtaken in flight.
//
// # States
//
//	planned, unknown ──▶ handed    the hand
//	planned, unknown ──▶ skipped   superseded by v<n>, useless, stale start, erased, discarded
//	planned, unknown ──▶ held      older than the catch-up limit
//	planned, unknown ──▶ refused   the address is suppressed
//	handed ──▶ sent      250 to the dot
//	handed ──▶ planned   4xx, or the connection was lost before the dot
//	handed ──▶ refused   5xx to RCPT, DATA or the dot
//	handed ──▶ unknown   no answer after the dot, or the lease over: marked
//	handed ──▶ held      too many 4xx, too many marks, or there is no mail to send
//	held, refused ──▶ planned (released, retried) or skipped (discarded)
//	unknown, planned, held, refused ──▶ sent   a 250 that comes late
//
// # Hand and token
//
// A hand is one transaction of two statements in one round trip: take first, read second. The
// read has a snapshot of its own, taken after every lock that the take waited for, so what it
// says of the booking, the contact and quiet times is true at the hand. What can't go is
// closed or put back there and then; the rest is counted in notifier.hands. Each hand has a
// fresh token; key and token together name it. One hand writes at most one final dot.
//
// # Lease and clocks
//
// The lease says that the hand's sender lives: 60 s on the database's clock, renewed every
// 20 s while the dialogue lives, never beyond handed_at + 12 min. The sender judges it by its
// own monotonic and wall clocks too, counted from before the hand was sent ([Lease]), right
// before MAIL FROM and right before the write that carries the final dot: over, it drops the
// connection. So a sender that was frozen does not send what somebody else has taken over. Due
// times, leases and quiet times are compared on the database's clock alone.
//
// # Marks, takeover and quiet time
//
// [Log.Sweep] marks each hand whose lease is over: the row is unknown, and a copy is possible
// because of that hand. No answer to the dot marks it as well, every time, also when the row
// is then held. A mark begins a quiet time, until handed_at + 15 min: a server may still
// accept what we think is lost, and an old mail must not come after a newer one, so until then
// no other row of the slot is handed, in whatever state the marked row is by then. The same
// row may be tried at once after its lease ended; after no answer it is due when the quiet time
// ends. The slot's other waiting rows are put off to there, which keeps them from the head of
// the queue; the rule itself stands in the claim and, for what the claim's snapshot can't see
// yet, in the read.
//
// So copies of one mail beyond the first are never more than its marks, hand by hand; and the
// last mail that arrives is true as long as no dialogue outlives the quiet time ([Times.Check]).
//
// # Late 250
//
// A result counts when the row is still in that hand. A 250 whose hand lost the row is written
// by key: unknown, planned, held and refused become sent; skipped keeps its word and gets
// accepted_at only; a row that somebody else has in hand gets accepted_at, and is sent when
// that hand ends, however it ends (marks still count): sent earlier, the slot would be free
// under a living dialogue.
//
// # Suppressions and notices
//
// An address that refused for good (package suppress) is written into notifier.suppressions by
// the transaction of the result. From then on every mail to it is refused at the hand, where it
// stands with the reason, until somebody lifts the suppression; the address that counts is the
// one that the hand reads, so a corrected one is not concerned.
//
// When a customer's mail comes to refused or held, or bounces, the host is told: a trigger of
// migration 0003 plans one notice for each such mail, by the transaction that finds it out,
// whichever that is: result, sweep, hand or report. Nobody is told of a host's own mail. A
// notice is a mail of the host's slot; it is skipped when it comes to its hand after the
// booking's end, or after its mail has been accepted after all.
//
// The owner of a webhook endpoint that was disabled is told by a notice without a booking (package
// webhook), to the address that the endpoint has at the hand.
//
// # What fails, and what happens
//
//	sender dies before MAIL FROM       the lease ends; marked, tried again at once (no copy, but nobody knows)
//	sender dies after the dot          the lease ends; marked, tried again at once: maybe a copy, same Message-ID
//	sender frozen, then thawed         its lease is over by its own clocks: it drops the socket; a 250 that came meanwhile is written by key
//	PostgreSQL away in a dialogue      the lease can't be renewed: before the dot the socket is dropped; results wait and are written later
//	answer to a result's commit lost   written again: it changes nothing
//	answer to a hand's commit lost     nobody has those rows in hand; their leases end
//	two hands choose one slot          the unique index send_log_slot refuses the second, which is rolled back and tried again
//	two senders write and sweep at once  the row lock decides; the loser finds the row in another state and changes nothing
package sendlog
