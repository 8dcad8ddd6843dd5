package mail

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

func TestB107TimesAreInTheResourcesZone(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	tests := map[string]struct {
		start, end string
		zone       string
		want       []string
	}{
		"winter":             {"2026-12-03T13:00:00Z", "2026-12-03T14:00:00Z", "Europe/Paris", []string{"Thursday, 3 December 2026, 14:00 to 15:00", "Europe/Paris (UTC+01:00)"}},
		"summer":             {"2026-07-01T13:00:00Z", "2026-07-01T14:00:00Z", "Europe/Paris", []string{"Wednesday, 1 July 2026, 15:00 to 16:00", "Europe/Paris (UTC+02:00)"}},
		"read elsewhere":     {"2026-12-03T15:00:00+02:00", "2026-12-03T16:00:00+02:00", "Europe/Paris", []string{"Thursday, 3 December 2026, 14:00 to 15:00", "Europe/Paris (UTC+01:00)"}},
		"UTC":                {"2026-12-03T13:00:00Z", "2026-12-03T14:00:00Z", "UTC", []string{"Thursday, 3 December 2026, 13:00 to 14:00", "UTC (UTC+00:00)"}},
		"over midnight":      {"2026-12-03T22:30:00Z", "2026-12-03T23:30:00Z", "Europe/Paris", []string{"Thursday, 3 December 2026, 23:30 to Friday, 4 December 2026, 00:30", "Europe/Paris (UTC+01:00)"}},
		"clocks go forward":  {"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "Europe/Berlin", []string{"Sunday, 29 March 2026, 01:30 (UTC+01:00) to 03:30 (UTC+02:00)", "Europe/Berlin"}},
		"clocks go back":     {"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "Europe/Berlin", []string{"Sunday, 25 October 2026, 02:30 (UTC+02:00) to 02:30 (UTC+01:00)", "Europe/Berlin"}},
		"B109 quarter hours": {"2026-12-03T13:00:00Z", "2026-12-03T14:00:00Z", "Asia/Kathmandu", []string{"Thursday, 3 December 2026, 18:45 to 19:45", "Asia/Kathmandu (UTC+05:45)"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := inZone(at(tt.start), at(tt.end), tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.lines(); !slices.Equal(got, tt.want) {
				t.Errorf("lines = %q, want %q", got, tt.want)
			}
		})
	}
	for _, kind := range []sendlog.Kind{sendlog.Confirm, sendlog.Move, sendlog.Cancel, sendlog.Reminder} {
		p := parse(t, render(t, hand(sendlog.Customer, kind)))
		for part, body := range map[string]string{"text": p.Text, "HTML": strings.ReplaceAll(p.HTML, "&#43;", "+")} {
			if !strings.Contains(body, "Thursday, 3 December 2026, 14:00 to 15:00") || !strings.Contains(body, "Europe/Berlin (UTC+01:00)") {
				t.Errorf("%s part of a %s mail:\n%s", part, kind, body)
			}
		}
	}
}

func TestB85UnknownZoneIsAnError(t *testing.T) {
	for _, zone := range []string{"", "Local", "Mars/Olympus", "../../etc/passwd"} {
		h := hand(sendlog.Customer, sendlog.Confirm)
		h.Facts.Zone = zone
		if _, err := renderer.Render(h); !errors.Is(err, ErrZone) {
			t.Errorf("Render in zone %q = %v, want ErrZone", zone, err)
		}
	}
}
