// Package daemon runs the programs of other people's servers for tests: found on this machine
// or installed, as a user that is not root where they refuse root, and ended with their
// starter, even when that is killed with -9: a small shell holds the other end of a pipe and
// stops the server when the pipe closes.
package daemon
