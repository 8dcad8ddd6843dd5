// Package pooler puts PgBouncer between a test and its database: in transaction mode, as
// people run it in front of many small pools.
//
//	db := dbtest.New(t)
//	p := pooler.New(t, db, "slotwise_booking", "slotwise_relay")
//	pool := pgdb.Open(… p.URL("slotwise_booking") …)
//
// Its settings are the strictest that an installation may have: no max_prepared_statements
// (Debian's 1.18 has none), no ignored startup parameters, and server_round_robin, so that a
// client's next transaction runs on another server connection whenever there is one. What
// works behind it needs nothing of a session: no prepared statement, no SET, no LISTEN, no
// session's advisory lock.
//
// PgBouncer is looked for on PATH and in /usr/sbin; as root on Debian or Ubuntu apt-get
// installs it, said aloud. Without it a test fails: nothing is skipped.
package pooler
