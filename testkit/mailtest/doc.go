// Package mailtest is an SMTP server for tests, on a real socket, that misbehaves as told.
//
//	mail := mailtest.New(t, mailtest.Options{})
//	mail.Script(mailtest.Fault{Phase: mailtest.Dot, Times: 1, End: mailtest.Silent})
//	…                                 // the service under test uses mail.URL() and mail.CAFile()
//	got := mail.Wait(1, 10*time.Second)
//
// A [Fault] is told for a phase of the dialogue: greeting, EHLO, STARTTLS, AUTH, MAIL, RCPT,
// DATA, the final dot. It can wait before the server acts and before it answers, refuse with
// any reply, leave out the answer, and close the connection, with or without an answer; at
// the dot the message counts as accepted as soon as the server has acted, whoever is still
// there to hear it. So each way in which a sender can be left not knowing is one Fault.
//
// The dialogue is written here, not taken from go-smtp, whose answers to STARTTLS and DATA
// can be neither delayed nor refused; the inbox of `make run` is a go-smtp server, so that
// our client meets two implementations. This one is strict where real servers are: order of
// commands, TLS before AUTH, line lengths, bare CR and LF.
package mailtest
