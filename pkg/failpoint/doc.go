// Package failpoint names the steps of the path from a booking to an accepted mail, so that a
// rehearsal can end or freeze a process at exactly one of them.
//
// A service calls [Hit] at each step:
//
//	booking.locked     the change's rows are locked and read, nothing is written
//	booking.saved      booking, event and answer are written, before the commit
//	booking.committed  after the commit, before the doorbell
//	relay.claimed      rows are claimed, nothing is published
//	relay.published    the stream has answered, the rows are not marked
//	relay.marked       the rows are marked, before the commit
//	planner.planned    the send log has the rows, the events are not acknowledged
//	scheduler.owed     reminders are owed, no schedule is written
//	audit.planned      what was lost is planned, the mark is not moved
//	sender.handed      a mail is in hand, before MAIL FROM
//	sender.body        the body is written, before the lease is judged for the last time
//	sender.dot         the lease was judged, the final dot is not written
//	sender.dotted      the final dot is written, its answer not read
//	sender.answered    the mail is accepted, the result not written
//
// In a release Hit is an empty function, which the compiler inlines to nothing: no symbol of
// this package is in the binary and no setting reaches it; this package's test looks. Only
// binaries that are built with the tag rehearsal read
//
//	SLOTWISE_FAILPOINTS=relay.published=kill:3,sender.dotted=stop
//
// a list of step=action:n, where n is the pass of the step that is meant, from 1 (the default);
// the passes before and after it are like any others. The actions are
//
//	kill  SIGKILL: the process ends here, as if it were out of memory
//	stop  SIGSTOP: the process freezes here until it gets SIGCONT
//	exit  the process ends with status 1, its deferred calls undone
//
// Before it acts, a line "failpoint <step>: <action>" goes to standard error.
package failpoint
