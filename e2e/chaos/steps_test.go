package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/testkit/checkout"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

var bothActions = []string{"kill", "stop"}

// houses are those of [TestStoppedAtEachStep].
var houses = map[string]struct {
	steps   []string
	actions []string
	without []string // services that run only as copies, armed or not
	times   string   // beyond shortTimes
	copies  int      // second copies that these windows are sure to make
}{
	"booking": {
		steps:   []string{"booking.locked", "booking.saved", "booking.committed"},
		actions: bothActions,
	},
	"relay": {
		steps:   []string{"relay.claimed", "relay.published", "relay.marked"},
		actions: bothActions, without: []string{"relay"},
	},
	"sender killed": {
		steps:   []string{"sender.handed", "sender.body", "sender.dot", "sender.dotted", "sender.answered"},
		actions: []string{"kill"}, without: []string{"notifier"}, copies: 2,
	},
	"sender frozen": {
		steps:   []string{"sender.handed", "sender.body", "sender.dot", "sender.dotted", "sender.answered"},
		actions: []string{"stop"}, without: []string{"notifier"}, copies: 2,
	},
	"the others": {
		steps:   []string{"planner.planned", "audit.planned", "scheduler.owed"},
		actions: bothActions, without: []string{"notifier", "scheduler"}, times: ",young=3s",
	},
}

// A process is killed (SIGKILL), or frozen past its lease or its locks and then thawed, at
// each step of the path, while guests book, move and cancel. Steps of one house come one after
// the other; each leaves some of its work to the next.
func TestStoppedAtEachStep(t *testing.T) {
	t.Parallel()
	for name, tt := range houses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts := slices.DeleteFunc(slices.Clone(stack.Services), func(s string) bool { return slices.Contains(tt.without, s) })
			h := open(t, parts, func(c *stack.Config) { c.Env["SLOTWISE_TIMES"] += tt.times })
			h.mail.Script(mailtest.Fault{Phase: mailtest.Dot, Late: 20 * time.Millisecond})
			for _, step := range tt.steps {
				for _, action := range tt.actions {
					began := time.Now()
					h.stopAt(step, action)
					t.Logf("%s=%s: %s", step, action, time.Since(began).Round(10*time.Millisecond))
				}
			}
			for _, service := range tt.without {
				h.start(service)
			}
			h.settle(60 * time.Second)
			if count := h.keepsThePromise(); count.copies < tt.copies || count.marks < tt.copies {
				t.Errorf("%d copies and %d marks, want %d of each at least: a window was missed", count.copies, count.marks, tt.copies)
			}
			h.everyStartHasItsSchedule()
		})
	}
}

// Every step that the services name is told in package failpoint and has its house here.
func TestEveryStepHasItsHouse(t *testing.T) {
	t.Parallel()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	told, err := os.ReadFile(filepath.Join(root, "pkg", "failpoint", "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	err = filepath.WalkDir(filepath.Join(root, "services"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, hit := range regexp.MustCompile(`failpoint\.Hit\("([^"]*)"\)`).FindAllSubmatch(text, -1) {
			named[string(hit[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	here := map[string]bool{}
	for _, house := range houses {
		for _, step := range house.steps {
			here[step] = true
		}
	}
	if !maps.Equal(named, here) {
		t.Errorf("the services name the steps\n%v, here are\n%v", slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(here)))
	}
	for step := range named {
		if !bytes.Contains(told, []byte("//	"+step+" ")) {
			t.Errorf("package failpoint does not tell %s", step)
		}
	}
}

// stopAt starts a copy of the step's service that stops at its first pass of the step, lets
// guests come until it does, and another copy go on in its place. A frozen copy is thawed once
// the other has taken over.
func (h *house) stopAt(step, action string) {
	h.T.Helper()
	service, _, _ := strings.Cut(step, ".")
	if owner := map[string]string{"planner": "notifier", "audit": "notifier", "sender": "notifier"}[service]; owner != "" {
		service = owner
	}
	marks := h.marks()
	var urls []string
	if step == "audit.planned" {
		h.lose()
	}
	name, armed := h.start(service, "SLOTWISE_FAILPOINTS="+step+"="+action)
	if service == "booking" { // guests who get no answer ask the other one
		if err := h.Await(h.T.Context(), name); err != nil {
			h.T.Fatal(err)
		}
		urls = []string{h.FrontURL(name), h.APIURL()}
	}
	answered := h.load(4, urls...)
	h.awaitHit(name, armed, step, action)
	var other *stack.Process
	if service != "booking" {
		_, other = h.start(service)
	}
	answered()
	h.Eventually(30*time.Second, "another copy takes over", func(ctx context.Context) error {
		switch service, _, _ := strings.Cut(step, "."); service {
		case "sender":
			return h.marked(ctx, marks)
		case "audit", "planner":
			return h.planned(ctx)
		default:
			return h.published(ctx)
		}
	})
	if action == "stop" {
		h.thaw(armed)
	}
	h.end(armed)
	if other != nil {
		h.end(other)
	}
}

// marks counts the hands that are marked unknown.
func (h *house) marks() int {
	h.T.Helper()
	return h.Count(`select count(*) from notifier.hands where unknown`)
}

// marked returns nil once there are more than so many marks, and each marked mail has been
// sent again, or is superseded.
func (h *house) marked(ctx context.Context, than int) error {
	marks, err := h.number(ctx, `select count(*) from notifier.hands where unknown`)
	if err != nil || marks <= than {
		return errors.Join(err, fmt.Errorf("%d marks", marks))
	}
	open, err := h.number(ctx, `select count(*) from notifier.send_log where unknowns > 0 and state not in ('sent', 'skipped')`)
	if err != nil || open > 0 {
		return errors.Join(err, fmt.Errorf("%d marked mails are not done", open))
	}
	return nil
}

// published returns nil once nothing waits in the outbox.
func (h *house) published(ctx context.Context) error {
	waiting, err := h.number(ctx, `select count(*) from booking.outbox_events where published_at is null`)
	if err != nil || waiting > 0 {
		return errors.Join(err, fmt.Errorf("%d events wait", waiting))
	}
	return nil
}

// lose lets guests book and takes the events out of the stream before anybody has planned them.
func (h *house) lose() {
	h.T.Helper()
	h.load(4)()
	h.Eventually(20*time.Second, "the events are published", h.published)
	stream, err := h.js.Stream(h.T.Context(), "BOOKINGS")
	if err != nil {
		h.T.Fatal(err)
	}
	if err := stream.Purge(h.T.Context()); err != nil {
		h.T.Fatal(err)
	}
	h.lost = len(h.guests)
}

// everyStartHasItsSchedule checks that each start that owes a reminder is scheduled, once.
func (h *house) everyStartHasItsSchedule() {
	h.T.Helper()
	rows, err := h.DB.Admin.Query(h.T.Context(), `
		select booking::text, start_version from booking.for_scheduler where status = 'confirmed' and remind_at > now()`)
	if err != nil {
		h.T.Fatal(err)
	}
	owed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event.Reminder])
	if err != nil {
		h.T.Fatal(err)
	}
	h.Eventually(20*time.Second, "every start has its schedule", func(ctx context.Context) error {
		stream, err := h.js.Stream(ctx, "REMINDERS")
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter("reminder.at.*.*"))
		if err != nil {
			return err
		}
		for _, r := range owed {
			if n := info.State.Subjects[r.ScheduleSubject()]; n != 1 {
				return fmt.Errorf("%d schedules for %+v", n, r)
			}
		}
		return nil
	})
}
