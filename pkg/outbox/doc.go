// Package outbox is both ends of the outbox table: a service appends an event in the
// transaction of its change, and the relay claims, publishes and marks what waits.
//
// # The table
//
// Any schema may have one; services/booking/migrations/0002_outbox.sql is the form. Its
// columns: id (identity), key, subject, message_id, headers, payload, created_at, attempts,
// next_attempt_at, last_error, parked_at, published_at. Checks on subject and sizes keep out
// what the stream would refuse. The partial indexes on waiting rows carry the claim, so that
// published rows cost nothing however many there are.
//
// # States of a row
//
//	waiting    published_at and parked_at are null; due once next_attempt_at has passed
//	published  the stream has acknowledged it; kept for a while, so that it can be replayed
//	parked     refused for so long that it no longer blocks its successors; waits for a person
//
// # Order
//
// Rows of one key are published in the order of their ids, because only the oldest waiting
// row of a key may be claimed. Ids follow the order of the changes only when the writer
// draws them under a lock on what the key names (the booking's row): then no older row of
// the key can become visible later.
//
// # Clocks and failures
//
// created_at and next_attempt_at are the database's. Claim and mark happen in one
// transaction under row locks: when the relay dies, or its connection ends, the rows are
// free again at once, and they are published a second time with the same message id, which
// the stream drops.
package outbox
