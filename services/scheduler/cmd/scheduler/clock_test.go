package main

import (
	"bufio"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// NATS's clock is an hour behind the database's: the scheduler says so, with its sign.
func TestClocksAreCompared(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		database string // what its clock is off by
		want     float64
	}{"right": {"0", 0}, "NATS behind": {"1 hour", -3600}, "NATS ahead": {"-1 hour", 3600}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, sql := range []string{
				`create schema skew`, `grant usage on schema skew to public`,
				`create function skew.clock_timestamp() returns timestamptz language sql as $$ select pg_catalog.clock_timestamp() + interval '` + c.database + `' $$`,
				`do $$ begin execute format('alter role slotwise_scheduler in database %I set search_path = skew, pg_catalog, public', current_database()); end $$`,
			} {
				if _, err := w.db.Admin.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			addr := freeAddr(t)
			w.scheduler("ADMIN_ADDR", addr)
			var skew float64
			w.eventually("the clocks are compared", func() (found bool) {
				skew, found = gauge(t, "http://"+addr+"/metrics", "slotwise_nats_clock_skew_seconds")
				return found && (skew != 0)
			})
			if math.Abs(skew-c.want) > 10 {
				t.Errorf("skew = %g s, want %g", skew, c.want)
			}
		})
	}
}

// gauge reads a metric without labels; false while it is not served.
func gauge(t *testing.T, url, name string) (float64, bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, false
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			return value, err == nil
		}
	}
	return 0, false
}
