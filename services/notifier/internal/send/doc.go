// Package send gives the mails of the send log to an SMTP server: it owns the connections and
// the dialogue; package sendlog owns what happens to the rows.
//
// # Loops
//
// One loop hands what is due to as many connections as are free, in one round trip to
// PostgreSQL; one writes whatever results have come in, in another; one renews leases, one
// sweeps. Each connection is a line of its own:
//
//	wanted ──▶ open: connect, greeting, EHLO, STARTTLS, AUTH ──▶ idle ◀──▶ in hand
//	   ▲            │ can't be had                                │ no work for 30 s, or SIGTERM: QUIT
//	   └── wait ◀───┴─────────────────── trouble ◀────────────────┘
//
// A connection that can't be had touches no row. Its wait, 1 s doubling to 60 s and back only
// after a 250, is the breaker. A connection that is found to have ended by the next MAIL FROM is
// replaced at once, and its row is due at once.
//
// # What an answer means
//
//	phase            4xx                     5xx                         no answer
//	EHLO, AUTH       no row is in hand yet: the line waits; a 5xx alerts, because it is the account's
//	MAIL FROM        put back, line waits    the same, and an alert;     put back, due at once
//	                 (421: as no answer)     552 (SIZE): refused
//	RCPT, DATA       tried again later       refused                     put back, after a wait
//	body             –                       –                           put back, after a wait
//	final dot        tried again later       refused                     unknown: marked
//
// Put back costs no attempt. 530, 535 and 538 are the account's in every phase. Patterns in the
// settings make a 5xx temporary or a 4xx final by the provider's own words. A refusal at RCPT
// that says that there is no such mailbox suppresses the address (package suppress).
//
// After a complete answer the connection is kept (RSET first, when a transaction is open).
// After anything else the socket is dropped, without RSET or QUIT: a half-written body must
// not be completed. The lease is judged right before MAIL FROM and right before the write that
// carries the final dot.
package send
