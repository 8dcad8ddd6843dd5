package endpoint_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/notifier/internal/endpoint"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/services/notifier/internal/webhook"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

var update = flag.Bool("update", false, "write the golden files")

// door is the API on a socket, over a database of the test's own.
type door struct {
	t        *testing.T
	db       *dbtest.DB
	store    *endpoint.Store
	log      *sendlog.Log
	bookings *seed.Seed
	url, key string
	logs     *observer.ObservedLogs
}

func open(t *testing.T) *door {
	t.Helper()
	db := dbtest.New(t)
	pool := db.Pool("slotwise_notifier")
	keys, err := apikey.In(pool, "booking.keys_for_notifier")
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	counts := prometheus.NewRegistry()
	refused := web.NewRefused(counts, apikey.Reasons...)
	log := sendlog.New(pool, sendlog.DefaultTimes())
	store := endpoint.New(pool, webhook.Rules{}, log.WakeWebhooks)
	doors := endpoint.Doors{Throttle: web.Throttle{Refused: refused}, Keys: apikey.NewGuard(keys, web.Clients{}, refused, zap.New(core))}
	server := httptest.NewServer(endpoint.NewAPI(store, doors, zap.New(core), counts))
	t.Cleanup(server.Close)
	bookings := seed.New(t, db.Admin)
	bookings.Resource(seed.Resource{ID: "room-7"})
	bookings.Resource(seed.Resource{ID: "room-8"})
	return &door{t, db, store, log, bookings, server.URL, seed.Key(t, db.Admin, []apikey.Scope{apikey.Webhooks}), logs}
}

// with is the same door for who has another key.
func (d *door) with(key string) *door {
	other := *d
	other.key = key
	return &other
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request; headers are pairs of names and values.
func (d *door) do(method, path, body string, headers ...string) reply {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if d.key != "" {
		request.Header.Set("Authorization", "Bearer "+d.key)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, all}
}

// must is do where that status is expected; it decodes the answer into to, if there is one.
func (d *door) must(status int, to any, method, path, body string, headers ...string) reply {
	d.t.Helper()
	r := d.do(method, path, body, headers...)
	if r.status != status {
		d.t.Fatalf("%s %s %s: %d %s", method, path, body, r.status, r.body)
	}
	if to != nil {
		if err := json.Unmarshal(r.body, to); err != nil {
			d.t.Fatalf("%s: %v", r.body, err)
		}
	}
	return r
}

// made is what tests read of an endpoint.
type made struct {
	ID, URL, Secret, Owner, Description string
	DisabledReason                      string   `json:"disabled_reason"`
	EventTypes                          []string `json:"event_types"`
	Resources                           []string
	Enabled                             bool
	Concurrency                         int
	Rate                                *int
	Secrets                             []struct {
		ExpiresAt *time.Time `json:"expires_at"`
	}
}

const hook = `"url": "https://hooks.example/in"`

func (d *door) create(fields ...string) made {
	d.t.Helper()
	var m made
	d.must(http.StatusCreated, &m, http.MethodPost, "/v1/webhooks", "{"+strings.Join(append([]string{hook}, fields...), ", ")+"}")
	return m
}

// told books room-7 and plans what that owes; it returns the event's id.
func (d *door) told() string {
	d.t.Helper()
	b := d.bookings.Book(seed.Booking{Resource: "room-7"})
	d.announce(b.Event)
	return b.Event.ID
}

func (d *door) announce(e event.Event) {
	d.t.Helper()
	body, err := e.Encode()
	if err != nil {
		d.t.Fatal(err)
	}
	mails, told := plan.Encoded{MessageID: e.ID, At: e.Time, Body: body}.Owed()
	if _, err := d.log.PlanEvents(d.t.Context(), mails, told); err != nil {
		d.t.Fatal(err)
	}
}

func (d *door) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.db.Admin.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatal(err)
	}
}

// state is where a delivery stands, as "state" or "state: reason".
func (d *door) state(key string) (state string) {
	d.t.Helper()
	err := d.db.Admin.QueryRow(d.t.Context(), `select state || coalesce(': ' || reason, '') from notifier.send_log where key = $1`, key).Scan(&state)
	if err != nil {
		d.t.Fatalf("%s: %v", key, err)
	}
	return state
}

func (d *door) want(key, state string) {
	d.t.Helper()
	if got := d.state(key); got != state {
		d.t.Errorf("%s is %q, want %q", key, got, state)
	}
}

var (
	secretForm = regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=$`)
	idForm     = regexp.MustCompile(`^we_[a-z2-7]{16}$`)
)

// The whole life of an endpoint, each answer held against the contract.
func TestLife(t *testing.T) {
	t.Parallel()
	d, c := open(t), readContract(t)
	check := func(method, path string, r reply) {
		t.Helper()
		c.Check(t, method, path, r.status, r.header, r.body)
	}
	const all = "/v1/webhooks"
	r := d.must(http.StatusCreated, nil, http.MethodPost, all, `{`+hook+`, "description": "Ops", "owner": "anna@example.org",
		"event_types": ["booking.v1.confirmed"], "resources": ["room-7"], "concurrency": 2, "rate": 10}`)
	check(http.MethodPost, all, r)
	var m made
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatal(err)
	}
	path := all + "/" + m.ID
	if !idForm.MatchString(m.ID) || !secretForm.MatchString(m.Secret) || !m.Enabled || m.Concurrency != 2 || *m.Rate != 10 || m.Owner != "anna@example.org" || r.header.Get("Location") != path {
		t.Errorf("made %+v, %v", m, r.header)
	}
	other := d.create()
	if other.Concurrency != 4 || other.Rate != nil || other.EventTypes != nil || other.Resources != nil || other.Secret == m.Secret {
		t.Errorf("made %+v", other)
	}

	r = d.must(http.StatusOK, nil, http.MethodGet, path, "")
	check(http.MethodGet, all+"/{id}", r)
	if strings.Contains(string(r.body), "whsec_") {
		t.Error("the secret is shown again")
	}
	tag := r.header.Get("ETag")
	var page struct {
		Endpoints []made
		Next      string
	}
	r = d.must(http.StatusOK, &page, http.MethodGet, all+"?limit=1", "")
	check(http.MethodGet, all, r)
	first := page.Endpoints[0].ID
	d.must(http.StatusOK, &page, http.MethodGet, all+"?limit=1&after="+page.Next, "")
	if ids := []string{first, page.Endpoints[0].ID}; !slices.Contains(ids, m.ID) || !slices.Contains(ids, other.ID) {
		t.Errorf("listed %v", ids)
	}

	r = d.must(http.StatusOK, &m, http.MethodPatch, path, `{"url": "https://hooks.example/two", "owner": null, "rate": null, "resources": null}`, "If-Match", tag)
	check(http.MethodPatch, all+"/{id}", r)
	if m.URL != "https://hooks.example/two" || r.header.Get("ETag") == tag || strings.Contains(string(r.body), "anna") {
		t.Errorf("changed to %s, %s", r.body, r.header.Get("ETag"))
	}
	r = d.must(http.StatusPreconditionFailed, nil, http.MethodPatch, path, `{"description": "late"}`, "If-Match", tag)
	check(http.MethodPatch, all+"/{id}", r)
	tag = d.must(http.StatusOK, nil, http.MethodGet, path, "").header.Get("ETag")
	if r = d.must(http.StatusOK, nil, http.MethodPatch, path, `{"url": "https://hooks.example/two"}`); r.header.Get("ETag") != tag {
		t.Error("a change that changes nothing is a change")
	}

	key := id.Webhook(d.told(), m.ID)
	d.exec(`insert into notifier.hands (key, token, n, handed_at, ended_at, outcome, answer)
		values ($1, gen_random_uuid(), 1, now() - interval '250 ms', now(), 'planned', '503 busy'), ($1, gen_random_uuid(), 2, now(), clock_timestamp(), 'planned', 'no answer within 15s')`, key)
	r = d.must(http.StatusOK, nil, http.MethodGet, path+"/deliveries?state=planned,held&since=2026-01-01T00:00:00Z", "")
	check(http.MethodGet, all+"/{id}/deliveries", r)
	var delivery struct {
		Type, Body string
		WebhookID  string `json:"webhook_id"`
		Tries      int
		Attempts   []struct {
			Status   int
			Answer   string
			Duration *int64 `json:"duration_ms"`
		}
	}
	r = d.must(http.StatusOK, &delivery, http.MethodGet, path+"/deliveries/"+key, "")
	check(http.MethodGet, all+"/{id}/deliveries/{key}", r)
	if delivery.Type != "booking.v1.confirmed" || delivery.WebhookID != key || delivery.Tries != 2 || len(delivery.Attempts) != 2 ||
		delivery.Attempts[0].Status != 503 || *delivery.Attempts[0].Duration != 250 || delivery.Attempts[1].Status != 0 {
		t.Errorf("delivery %+v", delivery)
	}
	if _, err := event.Decode([]byte(delivery.Body)); err != nil {
		t.Errorf("body %s: %v", delivery.Body, err)
	}
	r = d.must(http.StatusConflict, nil, http.MethodPost, path+"/deliveries/"+key+"/resend", "")
	check(http.MethodPost, all+"/{id}/deliveries/{key}/resend", r)
	d.exec(`update notifier.send_log set state = 'sent', accepted_at = now() where key = $1`, key)
	var planned struct{ Key string }
	r = d.must(http.StatusAccepted, &planned, http.MethodPost, path+"/deliveries/"+key+"/resend", "")
	check(http.MethodPost, all+"/{id}/deliveries/{key}/resend", r)
	d.must(http.StatusOK, &delivery, http.MethodGet, path+"/deliveries/"+planned.Key, "")
	if planned.Key != key+"-c2" || delivery.WebhookID != key {
		t.Errorf("the copy is %s with the webhook-id %s", planned.Key, delivery.WebhookID)
	}
	d.exec(`update notifier.send_log set state = 'skipped', reason = 'discarded' where key = $1`, planned.Key)
	if d.must(http.StatusAccepted, &planned, http.MethodPost, path+"/deliveries/"+planned.Key+"/resend", "{}"); planned.Key != key+"-c3" {
		t.Errorf("the copy's copy is %s", planned.Key)
	}

	r = d.must(http.StatusAccepted, &planned, http.MethodPost, path+"/example", "")
	check(http.MethodPost, all+"/{id}/example", r)
	d.must(http.StatusOK, &delivery, http.MethodGet, path+"/deliveries/"+planned.Key, "")
	if e, err := event.Decode([]byte(delivery.Body)); err != nil || e.Type != event.Confirmed || !strings.HasPrefix(planned.Key, "webhook-example-") {
		t.Errorf("the example %s is %s: %v", planned.Key, delivery.Body, err)
	}
	var secret struct{ Secret string }
	r = d.must(http.StatusOK, &secret, http.MethodPost, path+"/rotate", `{"overlap_seconds": 3600}`)
	check(http.MethodPost, all+"/{id}/rotate", r)
	if !secretForm.MatchString(secret.Secret) || secret.Secret == m.Secret {
		t.Errorf("the new secret is %q", secret.Secret)
	}
	r = d.must(http.StatusOK, nil, http.MethodPost, path+"/recover", `{"since": "2026-01-01T00:00:00Z"}`)
	check(http.MethodPost, all+"/{id}/recover", r)
	d.must(http.StatusNoContent, nil, http.MethodDelete, path, "")
	r = d.must(http.StatusNotFound, nil, http.MethodGet, path, "")
	check(http.MethodGet, all+"/{id}", r)
	d.must(http.StatusNotFound, nil, http.MethodDelete, path, "")
	if r := d.do(http.MethodHead, "/openapi.yaml", ""); r.status != http.StatusOK {
		t.Errorf("HEAD: %d", r.status)
	}
	for _, entry := range d.logs.All() {
		if text := fmt.Sprint(entry.Message, entry.ContextMap()); strings.Contains(text, "whsec_") || strings.Contains(text, "anna") {
			t.Errorf("logged: %s", text)
		}
	}
	var records string
	if err := d.db.Admin.QueryRow(t.Context(), `select string_agg(operation || ' ' || arguments::text, ' ') from notifier.operations`).Scan(&records); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(records, "whsec_") || strings.Contains(records, "anna") || !strings.Contains(records, "rotate secret") {
		t.Errorf("recorded: %s", records)
	}
}

// B117: what waits for an endpoint that is disabled is held, what comes is held, and enabling
// plans exactly those again, with all their tries. What a person or the tries have held stays.
func TestB117DisableAndEnable(t *testing.T) {
	t.Parallel()
	d := open(t)
	m := d.create()
	path := "/v1/webhooks/" + m.ID
	keys := make([]string, 6)
	for i := range keys {
		keys[i] = id.Webhook(d.told(), m.ID)
	}
	d.exec(`update notifier.send_log set state = 'held', reason = 'too many tries: 500', attempts = 10 where key = $1`, keys[0])
	d.exec(`update notifier.send_log set state = 'sent', accepted_at = now() where key = $1`, keys[1])
	d.exec(`update notifier.send_log set attempts = 4, due_at = now() + interval '5 hours' where key = $1`, keys[2])
	d.exec(`update notifier.send_log set state = 'unknown', unknowns = 1 where key = $1`, keys[3])
	d.exec(`update notifier.endpoints set failing_since = now() - interval '1 day'`)
	d.must(http.StatusOK, &m, http.MethodPatch, path, `{"enabled": false}`)
	if m.Enabled || !strings.HasPrefix(m.DisabledReason, "by key_") {
		t.Errorf("disabled: %+v", m)
	}
	keys = append(keys, id.Webhook(d.told(), m.ID))
	const held = "held: endpoint disabled"
	for i, want := range []string{"held: too many tries: 500", "sent", held, held, held, held, held} {
		d.want(keys[i], want)
	}
	d.must(http.StatusConflict, nil, http.MethodPost, path+"/example", "")
	d.must(http.StatusConflict, nil, http.MethodPost, path+"/recover", `{"since": "2026-01-01T00:00:00Z"}`)
	d.must(http.StatusConflict, nil, http.MethodPost, path+"/deliveries/"+keys[0]+"/resend", "")
	d.exec(`select notifier.retry('{"channel": "webhook"}', 'anna')`)
	d.want(keys[0], "held: too many tries: 500") // not for an endpoint that is off
	d.must(http.StatusOK, nil, http.MethodPatch, path, `{"enabled": true}`)
	for i, want := range []string{"held: too many tries: 500", "sent", "planned", "planned", "planned", "planned", "planned"} {
		d.want(keys[i], want)
	}
	var attempts, late, failing int
	if err := d.db.Admin.QueryRow(t.Context(), `
		select sum(attempts) filter (where state = 'planned'), count(*) filter (where state = 'planned' and due_at > now()),
		       (select count(failing_since) from notifier.endpoints)
		from notifier.send_log`).Scan(&attempts, &late, &failing); err != nil || attempts != 0 || late != 0 || failing != 0 {
		t.Errorf("%d tries are used up, %d wait, %d endpoints fail: %v", attempts, late, failing, err)
	}
	var n struct{ Planned int }
	if d.must(http.StatusOK, &n, http.MethodPost, path+"/recover", `{"since": "`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`); n.Planned != 0 {
		t.Errorf("%d of the future recovered", n.Planned)
	}
	if d.must(http.StatusOK, &n, http.MethodPost, path+"/recover", `{"since": "2026-01-01T00:00:00Z"}`); n.Planned != 1 {
		t.Errorf("%d recovered", n.Planned)
	}
	d.want(keys[0], "planned")
}

// Deleting skips what waits and what is held, and leaves nothing of the endpoint but its name.
func TestDeleteSkips(t *testing.T) {
	t.Parallel()
	d := open(t)
	m := d.create(`"owner": "anna@example.org"`, `"description": "ops"`)
	waits, held, sent := id.Webhook(d.told(), m.ID), id.Webhook(d.told(), m.ID), id.Webhook(d.told(), m.ID)
	d.exec(`update notifier.send_log set state = 'held', reason = 'too many tries' where key = $1`, held)
	d.exec(`update notifier.send_log set state = 'sent', accepted_at = now() where key = $1`, sent)
	d.must(http.StatusNoContent, nil, http.MethodDelete, "/v1/webhooks/"+m.ID, "")
	d.want(waits, "skipped: endpoint deleted")
	d.want(held, "skipped: endpoint deleted")
	d.want(sent, "sent")
	d.told()
	var rest string
	if err := d.db.Admin.QueryRow(t.Context(), `
		select concat_ws(' ', e.url, e.owner, e.description, e.enabled, (select count(*) from notifier.endpoint_secrets),
		                 (select count(*) from notifier.send_log where channel = 'webhook'))
		from notifier.endpoints e`).Scan(&rest); err != nil || rest != "f 0 3" {
		t.Errorf("left are %q: %v", rest, err)
	}
	d.exec(`select notifier.retry('{"channel": "webhook"}', 'anna')`)
	d.must(http.StatusNotFound, nil, http.MethodPost, "/v1/webhooks/"+m.ID+"/deliveries/"+sent+"/resend", "")
}

// Changes of url, types and resources between two tries: the next try reads the url; what is
// planned stays planned, and only what comes is chosen anew.
func TestChangeBetweenTries(t *testing.T) {
	t.Parallel()
	d := open(t)
	m := d.create()
	waits := id.Webhook(d.told(), m.ID)
	d.exec(`update notifier.endpoints set failing_since = now()`)
	d.must(http.StatusOK, &m, http.MethodPatch, "/v1/webhooks/"+m.ID, `{"url": "https://new.example/", "resources": ["room-8"], "event_types": ["booking.v1.cancelled"]}`)
	d.told()
	d.want(waits, "planned")
	var n, failing int
	if err := d.db.Admin.QueryRow(t.Context(), `
		select (select count(*) from notifier.send_log where channel = 'webhook'), count(failing_since) from notifier.endpoints`).Scan(&n, &failing); err != nil || n != 1 || failing != 0 {
		t.Errorf("%d deliveries, %d failing: %v", n, failing, err)
	}
}

// B120: both secrets are valid for the overlap, then one; the old one is deleted at its time. A
// fifth that would overlap is refused.
func TestB120Rotation(t *testing.T) {
	t.Parallel()
	d := open(t)
	m := d.create()
	path := "/v1/webhooks/" + m.ID
	begun := time.Now()
	d.must(http.StatusOK, nil, http.MethodPost, path+"/rotate", "")
	d.must(http.StatusOK, &m, http.MethodGet, path, "")
	if len(m.Secrets) != 2 || m.Secrets[0].ExpiresAt != nil {
		t.Fatalf("secrets %+v", m.Secrets)
	}
	if until := m.Secrets[1].ExpiresAt.Sub(begun); until < 23*time.Hour+59*time.Minute || until > 24*time.Hour+time.Minute {
		t.Errorf("the old one signs for %s", until)
	}
	tidy := func(want int) {
		t.Helper()
		d.exec(`select notifier.tidy_endpoints()`)
		var n int
		if err := d.db.Admin.QueryRow(t.Context(), `select count(*) from notifier.endpoint_secrets`).Scan(&n); err != nil || n != want {
			t.Errorf("%d secrets, want %d: %v", n, want, err)
		}
	}
	tidy(2)
	d.exec(`update notifier.endpoint_secrets set expires_at = now() - interval '1 second' where expires_at is not null`)
	d.must(http.StatusOK, &m, http.MethodGet, path, "")
	if len(m.Secrets) != 1 {
		t.Errorf("secrets %+v", m.Secrets)
	}
	tidy(1)
	for range 4 {
		d.must(http.StatusOK, nil, http.MethodPost, path+"/rotate", `{"overlap_seconds": 100}`)
	}
	d.must(http.StatusConflict, nil, http.MethodPost, path+"/rotate", "")
	d.exec(`update notifier.endpoint_secrets set expires_at = now() where expires_at is not null`)
	d.must(http.StatusOK, nil, http.MethodPost, path+"/rotate", `{"overlap_seconds": 0}`)
	tidy(1)
}

// Rows follow their endpoints: what came back from a hand to wait for one that has gone
// meanwhile, and what of a backlog was left over, does not stand there for ever.
func TestTidyEndpoints(t *testing.T) {
	t.Parallel()
	d := open(t)
	off, gone, on := d.create(), d.create(), d.create()
	e := d.told()
	d.must(http.StatusOK, nil, http.MethodPatch, "/v1/webhooks/"+off.ID, `{"enabled": false}`)
	d.must(http.StatusNoContent, nil, http.MethodDelete, "/v1/webhooks/"+gone.ID, "")
	tidied := func(want int) {
		t.Helper()
		var n int
		if err := d.db.Pool("slotwise_notifier").QueryRow(t.Context(), `select notifier.tidy_endpoints()`).Scan(&n); n != want || err != nil {
			t.Errorf("%d moved, want %d: %v", n, want, err)
		}
	}
	check := func(offs, gones, ons string) {
		t.Helper()
		d.want(id.Webhook(e, off.ID), offs)
		d.want(id.Webhook(e, gone.ID), gones)
		d.want(id.Webhook(e, on.ID), ons)
	}
	for _, state := range []string{"planned", "unknown"} {
		d.exec(`update notifier.send_log set state = $1, reason = null where channel = 'webhook'`, state)
		tidied(2)
		check("held: endpoint disabled", "skipped: endpoint deleted", state)
	}
	d.exec(`update notifier.send_log set state = 'held', reason = 'endpoint disabled', attempts = 3 where channel = 'webhook'`)
	tidied(2)
	check("held: endpoint disabled", "skipped: endpoint deleted", "planned")
	d.exec(`update notifier.send_log set state = 'held', reason = 'too many tries: 503' where channel = 'webhook'`)
	tidied(1)
	check("held: too many tries: 503", "skipped: endpoint deleted", "held: too many tries: 503")
	tidied(0)
}

// A backlog of any size is disabled, enabled and deleted in a transaction of bounded length: the
// rest follows. What is recovered comes batch by batch.
func TestBacklogIsMovedInBatches(t *testing.T) {
	t.Parallel()
	d := open(t)
	m := d.create()
	d.exec(`insert into notifier.send_log (key, channel, kind, version, endpoint, urgency, state, due_at, created_at, payload)
		select 'webhook-b' || n || '-' || $1, 'webhook', 'webhook', 1, $1, 0, 'planned', now() + n * interval '1 ms', now() - interval '1 minute', '{}'
		from generate_series(1, 10100) n`, m.ID)
	count := func(where string, want int) {
		t.Helper()
		var n int
		if err := d.db.Admin.QueryRow(t.Context(), `select count(*) from notifier.send_log where `+where).Scan(&n); n != want || err != nil {
			t.Errorf("%d are %s, want %d: %v", n, where, want, err)
		}
	}
	d.must(http.StatusOK, nil, http.MethodPatch, "/v1/webhooks/"+m.ID, `{"enabled": false}`)
	count(`state = 'held'`, 10_000)
	d.exec(`select notifier.tidy_endpoints()`)
	count(`state = 'held' and reason = 'endpoint disabled'`, 10_100)
	d.must(http.StatusOK, nil, http.MethodPatch, "/v1/webhooks/"+m.ID, `{"enabled": true}`)
	count(`state = 'planned'`, 10_000)
	d.exec(`select notifier.tidy_endpoints()`)
	count(`state = 'planned' and reason is null and attempts = 0 and due_at <= now()`, 10_100)

	d.exec(`update notifier.send_log set state = 'held', reason = 'too many tries: 503', attempts = 10 where version = 1`)
	n, err := d.store.Recover(t.Context(), m.ID, time.Now().Add(-time.Hour), endpoint.Everybody, "anna")
	if n != 10_100 || err != nil {
		t.Errorf("%d recovered: %v", n, err)
	}
	count(`state = 'planned' and attempts = 0`, 10_100)
	d.must(http.StatusNoContent, nil, http.MethodDelete, "/v1/webhooks/"+m.ID, "")
	count(`state = 'skipped'`, 10_000)
	d.exec(`select notifier.tidy_endpoints()`)
	count(`state = 'skipped'`, 10_100)
}

// What waits for a later try is recovered too: its receiver is well again before that.
func TestRecoverBringsForward(t *testing.T) {
	t.Parallel()
	d := open(t)
	m := d.create()
	e := d.told()
	d.exec(`update notifier.send_log set due_at = now() + interval '20 hours', attempts = 9 where channel = 'webhook'`)
	for _, want := range []int64{1, 0} {
		n, err := d.store.Recover(t.Context(), m.ID, time.Now().Add(-time.Hour), endpoint.Everybody, "anna")
		if n != want || err != nil {
			t.Errorf("%d recovered, want %d: %v", n, want, err)
		}
	}
	var due bool
	if err := d.db.Admin.QueryRow(t.Context(), `select due_at <= now() and attempts = 0 from notifier.send_log where key = $1`, id.Webhook(e, m.ID)).Scan(&due); !due || err != nil {
		t.Errorf("due: %t, %v", due, err)
	}
}

// A key for some resources makes and sees only endpoints for some of these.
func TestKeysOfResources(t *testing.T) {
	t.Parallel()
	d := open(t)
	everything, theirs := d.create(), d.create(`"resources": ["room-7"]`)
	e := d.told()
	some := d.with(seed.Key(t, d.db.Admin, []apikey.Scope{apikey.Webhooks}, "room-7", "room-9"))
	var page struct{ Endpoints []made }
	if some.must(http.StatusOK, &page, http.MethodGet, "/v1/webhooks", ""); len(page.Endpoints) != 1 || page.Endpoints[0].ID != theirs.ID {
		t.Errorf("it sees %+v", page)
	}
	var deliveries struct {
		Deliveries []struct{ Key string }
	}
	some.must(http.StatusOK, &deliveries, http.MethodGet, "/v1/webhooks/"+theirs.ID+"/deliveries", "")
	for _, r := range [][3]string{
		{http.MethodGet, "", ""},
		{http.MethodPatch, "", `{"enabled": false}`},
		{http.MethodDelete, "", ""},
		{http.MethodPost, "/rotate", ""},
		{http.MethodPost, "/example", ""},
		{http.MethodPost, "/recover", `{"since": "2026-01-01T00:00:00Z"}`},
		{http.MethodGet, "/deliveries", ""},
		{http.MethodGet, "/deliveries/" + id.Webhook(e, everything.ID), ""},
		{http.MethodPost, "/deliveries/" + id.Webhook(e, everything.ID) + "/resend", ""},
	} {
		some.must(http.StatusNotFound, nil, r[0], "/v1/webhooks/"+everything.ID+r[1], r[2])
	}
	// Nor another's delivery by way of one's own endpoint.
	var every struct {
		Deliveries []struct{ Key string }
	}
	d.must(http.StatusOK, &every, http.MethodGet, "/v1/webhooks/"+everything.ID+"/deliveries", "")
	some.must(http.StatusNotFound, nil, http.MethodGet, "/v1/webhooks/"+theirs.ID+"/deliveries/"+every.Deliveries[0].Key, "")
	some.must(http.StatusNotFound, nil, http.MethodPost, "/v1/webhooks/"+theirs.ID+"/deliveries/"+every.Deliveries[0].Key+"/resend", "")
	for _, resources := range []string{``, `, "resources": null`, `, "resources": ["room-8"]`, `, "resources": ["room-7", "room-8"]`} {
		some.must(http.StatusForbidden, nil, http.MethodPost, "/v1/webhooks", `{`+hook+resources+`}`)
	}
	some.must(http.StatusForbidden, nil, http.MethodPatch, "/v1/webhooks/"+theirs.ID, `{"resources": ["room-8"]}`)
	some.must(http.StatusForbidden, nil, http.MethodPatch, "/v1/webhooks/"+theirs.ID, `{"resources": null}`)
	some.must(http.StatusOK, nil, http.MethodPatch, "/v1/webhooks/"+theirs.ID, `{"resources": ["room-9"]}`)
	some.create(`"resources": ["room-7"]`)
}

// No route answers without a key, or with one that lacks the scope.
func TestEveryRouteNeedsAKey(t *testing.T) {
	t.Parallel()
	d := open(t)
	m := d.create()
	reader := d.with(seed.Key(t, d.db.Admin, []apikey.Scope{apikey.BookingsRead, apikey.BookingsWrite}))
	for _, route := range readContract(t).Routes() {
		if route == "GET /openapi.yaml" {
			continue
		}
		method, path, _ := strings.Cut(strings.NewReplacer("{id}", m.ID, "{key}", "k").Replace(route), " ")
		if r := d.with("").do(method, path, ""); r.status != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d", route, r.status)
		}
		if r := reader.do(method, path, ""); r.status != http.StatusForbidden {
			t.Errorf("%s without the scope: %d", route, r.status)
		}
	}
}

// Wrong input, each with the problem that it is answered with: see testdata/problems.golden.
func TestProblems(t *testing.T) {
	t.Parallel()
	d, c := open(t), readContract(t)
	m := d.create()
	one := "/v1/webhooks/" + m.ID
	var got strings.Builder
	for _, r := range []struct{ method, path, route, body string }{
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", ``},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `[]`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{"url": 7, "secret": "x", "URL": "", "url": ""}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{"url": "http://hooks.example/"}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{"url": "https://u:p@hooks.example/"}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{"url": "https://hooks.example/#f"}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{"url": "https://10.0.0.1/"}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{"url": "https://[::ffff:a9fe:a9fe]/"}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{"url": "https://2130706433/"}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{` + hook + `, "owner": "Anna <a@x.example>", "description": "a\nb", "event_types": ["booking.v1"], "resources": ["Room 7"], "concurrency": 0, "rate": 0}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{` + hook + `, "owner": 1, "description": [], "event_types": "all", "resources": [7], "concurrency": 1.5, "rate": "1"}`},
		{http.MethodPost, "/v1/webhooks", "/v1/webhooks", `{` + hook + `, "event_types": [], "resources": ["a", "a"], "concurrency": 65, "rate": 10001}`},
		{http.MethodGet, "/v1/webhooks?limit=0&before=x", "/v1/webhooks", ``},
		{http.MethodPatch, one, "/v1/webhooks/{id}", `{"url": null, "enabled": "no", "concurrency": null}`},
		{http.MethodPatch, one, "/v1/webhooks/{id}", `{"url": "ftp://x/"}`},
		{http.MethodGet, "/v1/webhooks/we_nobody", "/v1/webhooks/{id}", ``},
		{http.MethodGet, "/v1/webhooks/a%00b", "/v1/webhooks/{id}", ``},
		{http.MethodPost, one + "/rotate", "/v1/webhooks/{id}/rotate", `{"overlap_seconds": -1}`},
		{http.MethodPost, one + "/recover", "/v1/webhooks/{id}/recover", `{}`},
		{http.MethodPost, one + "/recover", "/v1/webhooks/{id}/recover", `{"since": "yesterday"}`},
		{http.MethodPost, one + "/example", "/v1/webhooks/{id}/example", `{"type": "x"}`},
		{http.MethodGet, one + "/deliveries?state=lost&since=x&before=nothing", "/v1/webhooks/{id}/deliveries", ``},
		{http.MethodGet, one + "/deliveries?before=nothing", "/v1/webhooks/{id}/deliveries", ``},
		{http.MethodGet, one + "/deliveries/nothing", "/v1/webhooks/{id}/deliveries/{key}", ``},
		{http.MethodPost, one + "/deliveries/nothing/resend", "/v1/webhooks/{id}/deliveries/{key}/resend", ``},
	} {
		a := d.do(r.method, r.path, r.body)
		c.Check(t, r.method, r.route, a.status, a.header, a.body)
		fmt.Fprintf(&got, "%s %s %s\n%d %s\n", r.method, strings.ReplaceAll(r.path, m.ID, "we_one"), r.body, a.status, a.body)
	}
	large := d.do(http.MethodPost, "/v1/webhooks", strings.Repeat(" ", 129<<10))
	fmt.Fprintf(&got, "129 KiB\n%d %s\n", large.status, large.body)
	form := d.do(http.MethodPost, "/v1/webhooks", "url=x", "Content-Type", "application/x-www-form-urlencoded")
	fmt.Fprintf(&got, "a form\n%d %s\n", form.status, form.body)
	method := d.do(http.MethodPut, one, "")
	fmt.Fprintf(&got, "PUT, allowed: %s\n%d %s\n", method.header.Get("Allow"), method.status, method.body)
	path := d.do(http.MethodGet, "/v1/nothing", "")
	fmt.Fprintf(&got, "no such path\n%d %s\n", path.status, path.body)

	golden := filepath.Join("testdata", "problems.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("answers differ from %s (-update writes it):\n%s", golden, got.String())
	}
}

// PostgreSQL away: 503 with Retry-After, and nothing of its words.
func TestAway(t *testing.T) {
	t.Parallel()
	d, c := open(t), readContract(t)
	d.exec(`revoke select on booking.keys_for_notifier from slotwise_notifier`)
	r := d.do(http.MethodGet, "/v1/webhooks", "")
	c.Check(t, http.MethodGet, "/v1/webhooks", r.status, r.header, r.body)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || strings.Contains(string(r.body), "permission") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// Whatever is sent, the answer is none of our faults.
func FuzzCreate(f *testing.F) {
	for _, body := range []string{`{}`, `{` + hook + `}`, `{"url": "https://[::1]/", "rate": 1e3}`, `{"owner": "\ud800"}`, `{"resources": ["a"]}`, `{"url": "\u0000"}`} {
		f.Add(body)
	}
	db := dbtest.New(f)
	pool := db.Pool("slotwise_notifier")
	keys, err := apikey.In(pool, "booking.keys_for_notifier")
	if err != nil {
		f.Fatal(err)
	}
	refused := web.NewRefused(prometheus.NewRegistry(), apikey.Reasons...)
	doors := endpoint.Doors{Keys: apikey.NewGuard(keys, web.Clients{}, refused, zap.NewNop())}
	handler := endpoint.NewAPI(endpoint.New(pool, webhook.Rules{}, func() {}), doors, zap.NewNop(), prometheus.NewRegistry())
	key := seed.Key(f, db.Admin, []apikey.Scope{apikey.Webhooks})
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/webhooks", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+key)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if answer.Code != http.StatusCreated && answer.Code != http.StatusUnprocessableEntity {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	})
}
