// Package inbox is a mailbox that takes everything, for `make run` and demonstrations: an
// SMTP server (go-smtp, with STARTTLS), a store that survives restarts, and a page to read
// the mails on.
//
// It answers the part of Mailpit's HTTP API that our tools use, so that a real Mailpit can
// take its place: GET /api/v1/messages (start, limit; newest first), GET
// /api/v1/message/{ID}/raw and DELETE /api/v1/messages.
//
// A mail is a file in the store's folder, exactly as it was received; the list of them is in
// memory. The oldest go when there are more than the store keeps, so neither grows for ever.
// What a mail brings is shown escaped; its HTML part in a frame without scripts, forms, or
// anything loaded from elsewhere.
package inbox
