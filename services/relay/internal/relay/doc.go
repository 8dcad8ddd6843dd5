// Package relay moves what waits in one outbox to one JetStream stream, in the order of each
// key, and marks it there.
//
// # A claim
//
// A lane claims due rows (only the oldest waiting row of each key), publishes them with their
// message ids, and marks them, all in one transaction, whose row locks keep other lanes and
// other relays away. From 50 rows on it tries one atomic batch first: the server then syncs
// its disk once. A refused batch is published again one by one, which shows what is wrong
// with which row.
//
// One lane works alone until a claim comes back full; then all do, each with a transaction
// and a connection of its own, until nothing is due. A doorbell wakes the relay within a
// millisecond of a commit, a poll every 5 s is the net below it.
//
// # What becomes of a row
//
//	acknowledged, or a duplicate   marked published: a duplicate is this outbox's own earlier
//	                               try, because message ids are unique in the table
//	refused itself (too large,     attempts + 1, the reason kept; due again after 1 s,
//	a subject that can't be)       doubling to 60 s; ten minutes after the first refusal it is
//	                               parked: its successors go on, it waits for a command
//	anything else                  free again as it was, and the relay pauses: 1 s, doubling
//	                               to 60 s, one log line each
//
// A full or missing stream, a reached limit, no answer: these say nothing about the row, so
// they burn no attempt (else a full stream would park everything). One case looks the same
// and is not: a row that gets no acknowledgement although a later one of its claim does, such
// as a row whose subject no stream takes. That is a refusal of the row. No row is ever
// discarded.
//
// # Clocks
//
// Versions of one booking must never go backwards in the stream, whatever is frozen and
// thawed. Until the lock is lost (PostgreSQL ends an idle transaction after 20 s) nobody else
// can publish the row; then somebody does, and its successor too. A second publish of the row
// is dropped by its message id for 10 minutes. After that only these stand between a thawed
// relay and an old message behind a newer one:
//
//   - Right before each message leaves, the age of its claim is looked at, on the monotonic
//     and on the wall clock: over 10 s, nothing more of it is sent. Contexts are no clocks: a
//     thawed one is not over yet.
//   - Its connection never reconnects. nats-server closes one that has been silent for
//     ping_interval × (ping_max + 2), 4 minutes, and what the client had buffered is gone
//     with it. A new connection begins with a new claim.
//   - A claim's first error that is no answer ends it: nothing more is sent, what was
//     acknowledged is marked, the connection is dropped.
//
// # Failures
//
// The relay dies, or PostgreSQL does, between publish and commit: published again, dropped by
// the id. NATS is away: no claim is begun. PostgreSQL is frozen: the transaction's context of
// 20 s ends the wait. A freeze of the relay holds its rows for 20 s at most.
package relay
