// Package bounce notes what comes back for mails that the mail server has accepted: "sent"
// says no more than that it has.
//
// # Return path
//
// With BOUNCE_DOMAIN set each mail has an envelope sender of its own, b+<name>@<domain>, where
// name is the row's key, shortened ([Name]). It is a function of the key, so it is the same on
// every try (a changing one would be greylisted again and again), nothing has to be stored or
// indexed to find the row again, and a report needs to quote nothing but the address that it
// was sent to.
//
// # Reports
//
// POST /v1/bounces takes, with the secret as a bearer token,
//
//	message/rfc822      a report as it arrived at the return path: the whole mail
//	multipart/report    the body of one (RFC 3462, RFC 3464)
//	application/json    what a provider's webhook tells, in the form of [Provider]
//
// The message is found by the return path that the report was sent to, by Original-Envelope-Id,
// or by the Return-Path or Message-ID of the mail that it returns.
//
//	report                               the row                        the address
//	action failed, provider's "hard"     bounced_at and the reason      suppressed, when its code is for good
//	action delayed, provider's "soft"    a reason                       –
//	delivered, relayed, expanded         –                              –
//
// A failed action counts with a status of 4.x.x too: the server has given up (RFC 3464 §2.3.3).
// The state stays sent: the mail was accepted, and trying again would bring it back again. The
// host is told of a customer's mail that bounced, by the same trigger as of a refused one.
//
// Only the first report about a message counts, so that a repeated one, also after somebody has
// lifted the suppression, changes nothing.
//
// # What a report is worth
//
// The secret says who delivers reports, not who wrote them: anybody can send a mail to a return
// path that they have seen. So a report can do two things only: mark a mail that has been in
// hand, and suppress the address that this mail goes to now, and that only when the report
// names it. A forwarder's report names another one; a corrected address is not the one that
// bounced. A provider's report without a recipient suppresses a customer's address unless the
// customer has been owed a newer mail, which may be the one to a corrected address.
//
// # What fails, and what happens
//
//	PostgreSQL away                  503 with Retry-After: whoever delivers reports tries again
//	the answer is lost               delivered again: it changes nothing
//	a report before the 250          counts: the mail had been in hand
//	no such message, or forgotten    200 and "unmatched": trying again would not help
//	a mail that is no report         422: an answer by machine, or spam
package bounce
