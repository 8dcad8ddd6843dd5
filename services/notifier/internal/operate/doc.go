// Package operate answers engineers on call: what stands where and why, and the few changes
// that a person may make to messages and to endpoints of webhooks. Its endpoints are those of the NATS micro service
// "notifier":
//
//	ops.get.trace      the story of one booking's messages; the request is the booking's id
//	ops.get.messages   lists messages by a [message.Query], page by page
//	ops.get.overdue    what is late with nothing that explains it, and how much waits for a person
//	ops.get.switches   what is paused
//	ops.get.suppressions   lists addresses that no mail goes to, by a [message.SuppressionQuery]
//	ops.get.webhooks   lists endpoints of webhooks by a [message.EndpointQuery], or shows one
//	ops.get.deliveries   lists webhooks by a [message.DeliveryQuery], or shows one with its tries
//	ops.do.<operator>.release, retry, discard, resend   by a [message.Order]
//	ops.do.<operator>.pause, resume                     mail or webhooks
//	ops.do.<operator>.lift                              ends the suppression of an address
//	ops.do.<operator>.webhook-create                    by [message.EndpointSettings]
//	ops.do.<operator>.webhook-disable, -enable, -delete, -rotate, -example, -resend, -recover   by a [message.EndpointOrder]
//
// The changes are SQL functions (migrations 0002 to 0004 and 0007), so that psql can make them
// when NATS is away; those of endpoints are told in package endpoint. Those of messages take these steps of the send log's protocol and no others:
//
//	release   held → planned             as it is: when its tries are used up, the next failure holds it again
//	retry     held, refused → planned    with all its tries
//	discard   planned, unknown, held, refused → skipped
//	resend    a new message, the mail of the present state, for what is sent, refused or skipped
//
// # Clocks and failures
//
// All times are PostgreSQL's. A change and its line in notifier.operations are one
// transaction; when its answer is lost, ask ops.get.messages: a change done twice finds
// nothing the second time. A dry run is the change, rolled back. A trace does without the
// streams when they can't be read, and says so.
package operate
