// Package chaos breaks a whole Slotwise where it hurts most and checks the promise of the
// design after each: every booking that was answered 201 has its mails, copies beyond the
// first are marked hand by hand, the last mail is true, nothing is left over, and versions
// never go backwards in BOOKINGS.
package chaos

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // they wait more than they work; the flag is there
	os.Exit(m.Run())
}
