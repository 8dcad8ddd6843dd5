package id_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/pkg/id"
)

const booking = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"

func TestIDs(t *testing.T) {
	event := id.Event(booking, 3)
	tests := map[string]struct{ got, want string }{
		"event":         {event, "booking-" + booking + "-v3"},
		"mail":          {id.Mail{Kind: "confirm", Booking: booking, Version: 1}.String(), "email-confirm-" + booking + "-v1"},
		"host's mail":   {id.Mail{Kind: "move", Booking: booking, Version: 2, Host: true}.String(), "email-move-" + booking + "-v2-host"},
		"first copy":    {id.Mail{Kind: "cancel", Booking: booking, Version: 2, Copy: 1}.String(), "email-cancel-" + booking + "-v2"},
		"resent":        {id.Mail{Kind: "confirm", Booking: booking, Version: 1, Copy: 2}.String(), "email-confirm-" + booking + "-v1-c2"},
		"host's resent": {id.Mail{Kind: "confirm", Booking: booking, Version: 1, Host: true, Copy: 3}.String(), "email-confirm-" + booking + "-v1-host-c3"},
		"reminder":      {id.Reminder(booking, 1), "reminder-" + booking + "-v1"},
		"webhook":       {id.Webhook(event, "ep_7"), "webhook-booking-" + booking + "-v3-ep_7"},
		"notice":        {id.Notice(id.Reminder(booking, 1)), "notice-reminder-" + booking + "-v1"},
		"unreadable":    {id.Unreadable(event), "event-booking-" + booking + "-v3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("id = %q, want %q", tt.got, tt.want)
			}
			if err := id.Check(tt.got); err != nil {
				t.Errorf("Check(%q) = %v", tt.got, err)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, bad := range []string{"", "a.b", "a*", "a>", "a b", "a\nb", "a\x00", "ä", "<a>", "a@b", strings.Repeat("a", id.MaxLength+1)} {
		if err := id.Check(bad); !errors.Is(err, id.ErrIllegal) {
			t.Errorf("Check(%q) = %v, want ErrIllegal", bad, err)
		}
	}
}

func TestIsBooking(t *testing.T) {
	tests := map[string]bool{
		booking:                               true,
		strings.ToUpper(booking):              false,
		"":                                    false,
		"0192":                                false,
		strings.ReplaceAll(booking, "-", "a"): false,
		strings.Replace(booking, "0", "-", 1): false,
	}
	for s, want := range tests {
		if got := id.IsBooking(s); got != want {
			t.Errorf("IsBooking(%q) = %v, want %v", s, got, want)
		}
	}
}
