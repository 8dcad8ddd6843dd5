// Package dbtest gives each test a PostgreSQL database of its own, with both schemas as the
// services' migrations on disk make them:
//
//	db := dbtest.New(t)
//	store := store.New(db.Pool("slotwise_booking"))
//
// The database is a clone (about 20 ms) of a template, made once per server and named by the
// hash of deploy/postgres/roles.sql, services/*/migrations and pkg/pgdb. A clone goes at the
// end of its test; that of a failed test stays, and its URL is logged.
//
// The server is that of TEST_DATABASE_URL (a superuser's; never DATABASE_URL: tests must not
// run on somebody's data). Without it, one is started for the test binary by
// [github.com/slotwise/slotwise/testkit/postgres], at the first New, and dies with the
// binary; TEST_POSTGRES_IMAGE makes that a Docker container. The program testkit/cmd/testdb
// starts one for many test binaries.
//
// TEST_POOLER=1 puts PgBouncer in transaction mode between the server and all roles, and
// TEST_EXEC_MODE names how pgx sends their statements (behind a pooler cache_describe, else
// pgx's own default): the same tests then show what works there (see
// [github.com/slotwise/slotwise/testkit/pooler]).
//
// Everybody logs in as a real role with its real rights and timeouts. Roles belong to the
// whole server: they all get [Password] there.
package dbtest
