package outage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/postgres"
	"github.com/slotwise/slotwise/testkit/proxy"
)

// The disk of PostgreSQL is full. What can't be written is refused with 503 and Retry-After,
// what was confirmed stays, and once there is room everything goes on by itself.
func TestDatabaseDiskIsFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 160)
	db := newServer(t, filepath.Join(disk, "data"), map[string]string{
		"min_wal_size": "32MB", "max_wal_size": "48MB", "shared_buffers": "16MB", "max_connections": "60",
	})
	s := start(t, func(c *stack.Config) { c.DatabaseURL = db.server.AdminURL })
	booked := []string{s.book("before")}

	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	refused := 0
	for n := 0; refused < 5; n++ {
		if n == 5000 {
			t.Fatal("5000 bookings fit on a full disk")
		}
		r, err := s.Post(t.Context(), seat(fmt.Sprintf("full-%d", n)))
		switch {
		case err == nil && r.Status == http.StatusCreated:
			booked = append(booked, r.Booking.ID)
		case err == nil && r.Status == http.StatusServiceUnavailable && r.RetryAfter != "":
			refused++
		default:
			t.Fatalf("with a full disk: %+v, %v, want 201, or 503 with Retry-After", r, err)
		}
	}
	t.Logf("%d bookings fitted on the full disk", len(booked)-1)

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.Eventually(30*time.Second, "it takes bookings again", func(ctx context.Context) error {
		db.supervise()
		r, err := s.Post(ctx, seat("after"))
		if err == nil && r.Status != http.StatusCreated {
			err = fmt.Errorf("status %d", r.Status)
		}
		if err == nil {
			booked = append(booked, r.Booking.ID)
		}
		return err
	})
	s.awaitMails(booked, 60*time.Second)
}

// fill writes a file until there is no room for another page.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // full, as wanted
	for size := 1 << 20; size >= 4<<10; {
		if _, err := file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// PostgreSQL is restarted twice under load, once gently and once by kill -9: no booking that
// was confirmed is missing, none is there twice, and each gets its mail.
func TestDatabaseRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	db := newServer(t, filepath.Join(newDir(t), "data"), nil)
	s := start(t, func(c *stack.Config) { c.DatabaseURL = db.server.AdminURL })

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	confirmed := make(chan string, 10000)
	for worker := range 4 {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if b, ok := s.Insist(seat(fmt.Sprintf("load-%d-%d", worker, n))); ok {
					confirmed <- b.ID
				}
				pause(ctx, 40*time.Millisecond)
			}
		})
	}
	awaitConfirmed := func(more int) {
		t.Helper()
		have := len(confirmed)
		s.Eventually(30*time.Second, fmt.Sprintf("%d more bookings", more), func(context.Context) error {
			if n := len(confirmed) - have; n < more {
				return fmt.Errorf("%d so far", n)
			}
			return nil
		})
	}
	awaitConfirmed(20)
	db.restart(syscall.SIGINT)
	awaitConfirmed(20)
	db.restart(syscall.SIGKILL)
	awaitConfirmed(20)
	stop()
	load.Wait()
	close(confirmed)

	var booked []string
	seen := map[string]bool{}
	for id := range confirmed {
		if seen[id] {
			t.Errorf("booking %s was confirmed for two keys", id)
		}
		seen[id] = true
		booked = append(booked, id)
	}
	s.awaitMails(booked, 60*time.Second)
}

// B31: PostgreSQL is frozen: it takes bytes and answers nothing. Probes answer within their
// 2 s, a customer is told to come back, no loop waits for ever, and after the thaw all go on.
func TestB31DatabaseIsFrozen(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	p := proxy.New(t, db.URL("slotwise_booking"))
	s := start(t, func(c *stack.Config) {
		c.DatabaseURL, c.Password, c.Pooler = db.URL(""), dbtest.Password, p.Addr()
	})
	booked := []string{s.book("before")}
	s.awaitMails(booked, 20*time.Second)

	p.Hold(proxy.ToServer)
	p.Hold(proxy.ToClient)
	frozen := time.Now()
	asked := make(chan install.Answer, 1)
	go func() {
		r, _ := s.Post(t.Context(), seat("frozen")) // no answer is told by its zero
		asked <- r
	}()
	for _, service := range stack.Services {
		if status := s.probe(service, "/readyz", 3*time.Second); status != http.StatusServiceUnavailable {
			t.Errorf("%s's readiness says %d while PostgreSQL is frozen, want 503 within 2 s", service, status)
		}
		if status := s.probe(service, "/livez", 2*time.Second); status != http.StatusOK {
			t.Errorf("%s's liveness says %d while PostgreSQL is frozen, want 200: a restart would not help", service, status)
		}
	}
	if r := <-asked; r.Status != http.StatusServiceUnavailable || r.RetryAfter == "" {
		t.Errorf("a customer got %+v, want 503 with Retry-After", r)
	}
	t.Logf("the customer had an answer after %s", time.Since(frozen).Round(time.Millisecond))
	for part, words := range frozenWords {
		s.Eventually(40*time.Second-time.Since(frozen), part+" gives up waiting", func(context.Context) error {
			if s.Log.Lines(part, words) == 0 {
				return errors.New("no line of it says so")
			}
			return nil
		})
	}

	p.Resume()
	s.Eventually(30*time.Second, "all are ready again", func(context.Context) error {
		for _, service := range stack.Services {
			if status := s.probe(service, "/readyz", 3*time.Second); status != http.StatusOK {
				return fmt.Errorf("%s says %d", service, status)
			}
		}
		return nil
	})
	booked = append(booked, s.book("after"))
	s.awaitMails(booked, 30*time.Second)
}

// frozenWords are what the loops log when PostgreSQL did not answer in time.
var frozenWords = map[string]string{"relay": "deadline", "notifier": "deadline"}

// server is a PostgreSQL of the test's own, always on the same address.
type server struct {
	t       *testing.T
	options postgres.Options
	server  *postgres.Server
}

func newServer(t *testing.T, dir string, settings map[string]string) *server {
	t.Helper()
	s := &server{t: t, options: postgres.Options{Dir: dir, Set: settings}}
	s.start()
	t.Cleanup(s.stop)
	u, err := url.Parse(s.server.AdminURL)
	if err != nil {
		t.Fatal(err)
	}
	s.options.Addr = u.Host
	return s
}

// start starts the server, again and again for a while: after a kill -9 what is left of the
// last one keeps the next from starting for a moment.
func (s *server) start() {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		server, err := postgres.Start(context.WithoutCancel(s.t.Context()), s.options)
		if err == nil {
			s.server = server
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
		pause(s.t.Context(), 100*time.Millisecond)
	}
}

func (s *server) stop() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 20*time.Second)
	defer cancel()
	if err := s.server.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

// restart ends the server by a signal and starts it again.
func (s *server) restart(signal syscall.Signal) {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.options.Dir, "postmaster.pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		s.t.Fatal(err)
	}
	<-s.server.Done()
	s.start()
}

// supervise starts the server again if it has ended, as whoever runs it in production does.
func (s *server) supervise() {
	s.t.Helper()
	select {
	case <-s.server.Done():
		s.start()
	default:
	}
}

// newDir is a folder that PostgreSQL's user can reach, unlike those of tests.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slotwise-outage-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })      //nolint:errcheck // a temporary folder
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	return dir
}
