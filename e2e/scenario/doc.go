// Package scenario tells what Slotwise does for the people in front of it, each story with the
// real programs as processes, through the front door, to the inbox.
package scenario
