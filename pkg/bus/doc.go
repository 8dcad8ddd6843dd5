// Package bus is how a program reaches NATS: a connection that needs no server to start, the
// consumer loop, and the doorbell.
//
// # The loop
//
// A [Loop] opens a durable consumer that somebody else has declared, waiting for it if need
// be, and handles its messages until it is told to stop. It has four outcomes:
//
//	done      Handle returned nil: the messages are acknowledged
//	later     Handle failed: negative acknowledgement with a delay that doubles with each
//	          delivery (a bare one would come back at once, and a consumer's own BackOff list
//	          adds to it)
//	never     Handle returned [Poison]: the message is terminated with the reason
//	stopping  the context ended: what has been fetched is finished first, a call of Handle
//	          or two
//
// A consumer that is deleted and declared again ends the loop's subscription and delivers
// everything from the start; the loop opens it anew. Handlers must therefore be idempotent:
// every message may come twice, late, or after a newer one. Consumers of booking events
// ignore a version that is not higher than the last they saw of that booking.
//
// # Clocks and failures
//
// A pull request expires after 5 s and expects a heartbeat every 2 s, so that a wiped store
// or a frozen server is noticed within seconds. Acknowledgements are sent without waiting,
// except the last of a batch: only a waited-for one detects a missing permission. A lost
// acknowledgement means one more delivery. With Max 1 nothing is fetched while a message is
// handled; with more, up to Max messages wait for one call of Handle, and theirs together
// should end within the consumer's AckWait.
package bus
