// Package postgres finds or starts a PostgreSQL server (>= 15). It is the one resolver
// that `make run` and all tests share.
//
// The ways, in this order; the first that works is taken:
//
//  1. a given URL (Options.URL): that server is used and never stopped;
//  2. server binaries on PATH or under /usr/lib/postgresql/*/bin, newest first. They refuse
//     root: then they run as user postgres, else nobody, who own the data folder;
//  3. Docker through ory/dockertest, when a daemon answers and the image is present or can
//     be pulled. Options.Image set asks for this way, even where there are binaries;
//  4. on Debian and Ubuntu as root: apt-get installs the distribution's package, said aloud.
//
// With none, Start's error names all of them and why each failed. Nothing is ever skipped.
//
// # Life and death
//
// A server that we started dies with its starter, even when that is killed with -9: see
// package daemon; in Docker the pipe is the container's standard input. A temporary folder goes with it. A data folder that the
// caller named (Options.Dir) survives and is used again by the next Start, which waits for a
// predecessor that is still stopping and removes the postmaster.pid of a dead one.
package postgres
