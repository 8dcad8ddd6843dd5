// Package hooktest is a receiver of webhooks for tests, on a real socket, that misbehaves as told.
//
//	hooks := hooktest.New(t, hooktest.Options{})
//	hooks.Script(hooktest.Fault{Path: "/slow", Until: released}, hooktest.Fault{Times: 1, Status: 503})
//	…                                 // the service under test posts to hooks.URL("/orders")
//	got := hooks.Wait(2, 10*time.Second)
//
// A [Fault] answers with any status and header, late or never, with a body without end, or closes
// the connection after the request was read: each way in which a sender can be left without an
// answer is one. A request counts when it has been read, whatever is answered.
//
// [Request.Verify] judges a request by the official library of Standard Webhooks.
package hooktest
