// Package audit plans, from PostgreSQL alone, what the fast path has lost. With it a mail
// goes out although NATS was away, a stream was deleted or a store was wiped.
//
// # A pass
//
// Every minute a pass does three things, each in transactions of its own that take no longer
// than 20 s:
//
//	reminders  the reminder of every confirmed booking that has no row, whose start is ahead,
//	           and whose remind_at passed 5 minutes ago (or a quarter of the lead, when that
//	           is less: NATS fires late when thousands are due at once)
//	events     every kept outbox row behind the mark, in the order of ids, is planned again
//	           by the same rule as the planner's; then the mark moves
//	released   an event that could not be read and that an operator has released is read again
//
// Planning a key again is nothing, so a pass that dies half way, or plans what the planner is
// just about to plan, does no harm. What a pass inserts is counted: that many messages were
// lost by the fast path. An event that can't be read becomes a held row and the mark goes on.
//
// # The mark
//
// Ids of outbox rows are drawn before the commit: a row may become visible after one with a
// higher id. So a pass stops at the first row that is younger than two minutes, on the
// database's clock; no transaction lives that long (pgdb.TxTimeout). To be safe from one that
// did, the mark goes back every hour to where it stood an hour before. It is row "audit" of
// notifier.progress. Outbox rows behind it are kept by the booking service.
//
// Replicas take turns: each transaction locks that row and skips its turn when it is locked.
// A replica that dies or freezes in there loses the lock with its connection, or after 20 s in
// an idle transaction.
//
// # Failures
//
//	PostgreSQL away           the pass fails; the next one begins where the mark stands
//	answer to a commit lost   the same rows are planned again
//	no pass for long          the age of the last one is a gauge; a loop that hangs fails /livez
package audit
