package bounce_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/bounce"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

const booking = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"

// localPart is what every server carries, whatever it does to letters' case.
var localPart = regexp.MustCompile(`^b\+[0-9a-z]{1,62}$`)

// Every key that pkg/id makes for a mail has a name, and the name leads back to it.
func TestName(t *testing.T) {
	const last = 1<<63 - 1
	keys := []string{id.Reminder(booking, 1), id.Reminder(booking, last)}
	for _, kind := range []sendlog.Kind{sendlog.Confirm, sendlog.Move, sendlog.Cancel} {
		for _, version := range []int64{1, 10, last} {
			for _, host := range []bool{false, true} {
				for _, n := range []int{0, 2, 999_999_999} {
					keys = append(keys, id.Mail{Kind: string(kind), Booking: booking, Version: version, Host: host, Copy: n}.String())
				}
			}
		}
	}
	names := map[string]string{}
	for _, key := range keys {
		for _, key := range []string{key, id.Notice(key)} {
			name, ok := bounce.Name(key)
			if !ok || !localPart.MatchString("b+"+name) {
				t.Errorf("%s has the name %q, %t", key, name, ok)
			}
			if other, taken := names[name]; taken {
				t.Errorf("%s and %s have one name", key, other)
			}
			names[name] = key
			for _, written := range []string{name, strings.ToUpper(name)} {
				if back, ok := bounce.Key(written); !ok || back != key {
					t.Errorf("%s leads to %q, want %s", written, back, key)
				}
			}
		}
	}
}

// What is no mail's key has no name: its mail has the usual envelope sender.
func TestNameOfNothing(t *testing.T) {
	for _, key := range []string{
		"", "k", "event-booking-" + booking + "-v1", "webhook-booking-" + booking + "-v1-hook", "email-confirm-" + booking, "email-hello-" + booking + "-v1",
		"email-confirm-" + booking + "-v01", "email-confirm-" + strings.ToUpper(booking) + "-v1", "notice-notice-" + id.Reminder(booking, 1), id.Reminder(booking, 1) + "\n",
	} {
		if name, ok := bounce.Name(key); ok {
			t.Errorf("%q has the name %q", key, name)
		}
	}
	for _, name := range []string{"", "c", "c" + strings.Repeat("0", 26), "z" + strings.Repeat("0", 26) + "v1", "c" + strings.Repeat("0", 25) + "1v1", "c" + strings.Repeat("w", 26) + "v1"} {
		if key, ok := bounce.Key(name); ok {
			t.Errorf("%q leads to %q", name, key)
		}
	}
}

func TestReturnPath(t *testing.T) {
	hand := func(key string) sendlog.Hand { return sendlog.Hand{Message: sendlog.Message{Key: key}} }
	const from = "bookings@slotwise.example"
	tests := []struct{ domain, key, want string }{
		{"bounces.slotwise.example", id.Mail{Kind: "confirm", Booking: booking, Version: 3}.String(), "b+c0698ovir79u4r3kv18diofaebsv3@bounces.slotwise.example"},
		{"bounces.slotwise.example", "k1", from},
		{"", id.Reminder(booking, 1), from},
	}
	for _, tt := range tests {
		if got := bounce.ReturnPath(tt.domain, from)(hand(tt.key)); got != tt.want {
			t.Errorf("%s on %q has the return path %s, want %s", tt.key, tt.domain, got, tt.want)
		}
	}
}

// A name leads to one key, whose name it is.
func FuzzKey(f *testing.F) {
	for _, name := range []string{"c0698ovir79u4r3kv18diofaebsv3", "nr0698ovir79u4r3kv18diofaebsv10", "x0698ovir79u4r3kv18diofaebsv3hc2", "c", "C0698OVIR79U4R3KV18DIOFAEBSV3"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key, ok := bounce.Key(name)
		if !ok {
			return
		}
		if id.Check(key) != nil {
			t.Errorf("%q leads to %q, which is no id", name, key)
		}
		if back, ok := bounce.Name(key); !ok || back != strings.ToLower(name) {
			t.Errorf("%q leads to %s, whose name is %q", name, key, back)
		}
	})
}
