// Package pkgtest holds the tests of pkg that need a PostgreSQL or a NATS server: pkg itself
// must not import testkit.
package pkgtest
