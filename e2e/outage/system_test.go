package outage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
)

// system is a running Slotwise, and a customer in front of it.
type system struct{ *install.Installation }

// start runs a stack that ends with the test.
func start(t *testing.T, change func(*stack.Config)) *system {
	t.Helper()
	return &system{install.Start(t, change)}
}

// seat asks for a seat in the hall that is never full; a client that gets no answer repeats it
// with the same key.
func seat(key string) install.Request {
	return install.Request{Body: install.Seat("hall", key+"@customers.example", install.InDays(3)), Key: key}
}

// book books or fails the test.
func (s *system) book(key string) string {
	s.T.Helper()
	return s.Book("hall", key+"@customers.example", install.InDays(3)).ID
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// awaitMails waits until each of the bookings' confirmations was accepted by the mail server.
func (s *system) awaitMails(bookings []string, within time.Duration) {
	s.T.Helper()
	s.Eventually(within, fmt.Sprintf("%d confirmations are sent", len(bookings)), func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.DatabaseURL(""))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		var sent int
		err = conn.QueryRow(ctx, `
			select count(distinct booking) from notifier.send_log
			 where booking = any ($1) and kind = 'confirm' and role = 'customer' and state = 'sent'`, bookings).Scan(&sent)
		if err == nil && sent != len(bookings) {
			err = fmt.Errorf("%d so far", sent)
		}
		return err
	})
}

// probe asks a path of a service's admin port; 0 is no answer within the time.
func (s *system) probe(service, path string, within time.Duration) int {
	ctx, cancel := context.WithTimeout(s.T.Context(), within)
	defer cancel()
	status, _ := s.get(ctx, s.AdminURL(service)+path)
	return status
}

// figure reads one of the relay's metrics; an error when it is not there.
func (s *system) figure(ctx context.Context, name string) (float64, error) {
	_, body := s.get(ctx, s.AdminURL("relay")+"/metrics")
	for line := range bytes.Lines(body) {
		if value, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
		}
	}
	return 0, fmt.Errorf("the relay has no %s", name)
}

func (s *system) get(ctx context.Context, url string) (status int, body []byte) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body) // cut off: no answer
	if err != nil {
		return 0, nil
	}
	return response.StatusCode, body
}
