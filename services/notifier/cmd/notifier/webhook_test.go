package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/hooktest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// endpoint makes one with a secret.
func (w *world) endpoint(id, url string) {
	w.t.Helper()
	for _, sql := range []string{
		`insert into notifier.endpoints (id, url, owner, created_at) values ($1, $2, 'owner@teams.example', now() - interval '1 day')`,
		`insert into notifier.endpoint_secrets (endpoint, secret) select $1, 'whsec_' || encode(sha256($2::bytea), 'base64')`,
	} {
		if _, err := w.db.Admin.Exec(w.t.Context(), sql, id, url); err != nil {
			w.t.Fatal(err)
		}
	}
}

// webhook plans b's event for an endpoint, as another process would.
func (w *world) webhook(endpoint string, b seed.Booking) (key string) {
	w.t.Helper()
	body, err := b.Event.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	facts, err := json.Marshal(sendlog.Facts{Event: body})
	if err != nil {
		w.t.Fatal(err)
	}
	key = id.Webhook(b.Event.ID, endpoint)
	_, err = w.db.Admin.Exec(w.t.Context(), `
		insert into notifier.send_log (key, channel, booking, kind, version, endpoint, urgency, state, due_at, payload)
		values ($1, 'webhook', $2, 'webhook', $3, $4, 0, 'planned', now(), $5)
		on conflict do nothing`, key, b.ID, b.Version, endpoint, facts)
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// B115, B116, B125: one endpoint hangs, one is dead, one has no URL: mails and the healthy endpoint's
// webhooks go all the same, each once.
func TestB115B116B125WebhooksAndMailsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hooks := hooktest.New(t, hooktest.Options{TLS: true})
	hooks.Script(hooktest.Fault{Path: "/hangs", Silent: true}, hooktest.Fault{Path: "/dead", Status: 500})
	w.env["WEBHOOK_CA_FILE"], w.env["WEBHOOK_ALLOW"], w.env["DRAIN"] = hooks.CAFile(), "127.0.0.0/8", "1ms"
	w.endpoint("we_hangs", hooks.URL("/hangs"))
	w.endpoint("we_dead", hooks.URL("/dead"))
	w.endpoint("we_null", "x")
	w.endpoint("we_good", hooks.URL("/good"))
	if _, err := w.db.Admin.Exec(t.Context(), `update notifier.endpoints set url = null where id = 'we_null'`); err != nil {
		t.Fatal(err)
	}
	w.apply(0)
	var good []string
	for range 20 {
		b := w.bookings.Book(seed.Booking{Resource: "room-7"})
		w.webhook("we_hangs", b)
		w.webhook("we_dead", b)
		w.webhook("we_null", b)
		good = append(good, w.webhook("we_good", b))
	}
	w.serve()
	w.relay("")
	w.mail.Wait(20, soon)
	for end := time.Now().Add(soon); hooks.Count("/good") < len(good); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d webhooks arrived", hooks.Count("/good"), len(good))
		}
	}
	seen := map[string]int{}
	for _, r := range hooks.Requests() {
		if r.Path == "/good" {
			seen[r.ID()]++
		}
	}
	for _, key := range good {
		if seen[key] != 1 {
			t.Errorf("%s arrived %d times", key, seen[key])
		}
	}
	if n := w.mail.Counts().Accepted; n != 20 {
		t.Errorf("%d mails", n)
	}
}
