// Package endpoint is where webhooks go: who is told of which events, with which secret, and
// what became of it. The HTTP API below /v1/webhooks, operators' commands and psql do the same
// through the SQL functions of migrations 0004 and 0007. openapi.yaml, beside this file and
// served at /openapi.yaml, is the API's contract; a test compares the two.
//
// # What becomes of deliveries that wait
//
//	disable      held: endpoint disabled; what comes is planned held too, and what is in hand when it ends without success
//	enable       exactly those are planned again, at once, with all their tries
//	delete       skipped: endpoint deleted; url, description, owner and secrets are gone for good
//	new url      the next try goes there, at its time; failures of the old one are forgotten
//	new types or resources   concern events that are planned from then on
//	new secret   signs from then on, beside the old one until that expires
//	recover      what is held or refused, and was planned since then, is planned again with all its tries
//
// # Secrets
//
// They are kept as they are, because each delivery is signed with them; the notifier's role alone
// reads them. They are shown once, when they are made, and stand in no log, event or metric.
// [Store.Tidy] deletes those that have expired.
//
// # Keys
//
// Every request needs an API key with the scope webhooks. A key for some resources makes, sees
// and changes only endpoints for some of these.
//
// # Failures
//
// Creating has no Idempotency-Key: when the answer is lost, list, and delete the endpoint whose
// secret nobody saw. Everything else may be repeated: it finds nothing to do the second time, but
// for an example, a rotation and a copy, of which there are then two.
package endpoint
