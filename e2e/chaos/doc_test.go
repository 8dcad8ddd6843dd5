// Package chaos breaks a whole Slotwise where it hurts most and checks the promise of the
// design after each: every booking that was answered 201 has its mails, copies beyond the
// first are marked hand by hand, the last mail is true, nothing is left over, and versions
// never go backwards in BOOKINGS.
//
// What the design says of failures, and the tests of it, here or where the part lies:
//
//	booking dies between commit and doorbell   TestStoppedAtEachStep: booking.committed
//	relay dies or freezes between publish      TestStoppedAtEachStep: relay.published, relay.marked;
//	and commit                                 past the window: TestB50PublishedAgainPastTheWindow;
//	                                           relay: TestFrozenProcess, TestFrozenRelay
//	a frozen relay's locks                     TestFrozenRelayHoldsNobodyUp
//	two relays                                 TestTwoOfEach; relay: TestB2TwoRelaysKeepTheOrder
//	NATS away for hours                        scenario: TestB39B58NATSAwayAndWiped
//	stream deleted, store wiped                TestStreamsWiped; TestStoppedAtEachStep: audit.planned;
//	                                           notifier: TestB39WipedStore
//	notifier dies or freezes                   TestStoppedAtEachStep: planner, audit, sender;
//	                                           send: TestB19KilledTwoHundredTimes, TestItem14FrozenAndTakenOver
//	a server that needs long after the dot     TestServerIsSlowAfterTheDot
//	SMTP away                                  notifier: TestB45MailServerAway; send: TestConnectionThatCantBeHad
//	one mailbox refuses                        operate: TestB74RefusedIsARowAndCanBeResent
//	PostgreSQL away                            outage: TestDatabaseRestartsUnderLoad, TestB31DatabaseIsFrozen,
//	                                           TestDatabaseDiskIsFull; planner: TestB45NothingIsAcknowledgedUnplanned
//	clock skew                                 TestClockSkew; plan: TestReminderThatFiresEarly; relay: TestClock
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
