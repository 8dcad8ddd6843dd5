package catalog_test

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/catalog"
)

func TestRead(t *testing.T) {
	all, err := catalog.Read(strings.NewReader(`
resources:
  - {id: a, name: A, zone: UTC, slot_minutes: 30}
  - {id: b, name: B, zone: Europe/Berlin, capacity: 3, slot_minutes: 60, reminder_lead: 36h, host_address: h@x.example, retired: true}
  - {id: c, name: C, zone: UTC, slot_minutes: 30, reminder_lead: 0}
`))
	want := []booking.Resource{
		{ID: "a", Name: "A", Zone: "UTC", Capacity: 1, SlotMinutes: 30},
		{ID: "b", Name: "B", Zone: "Europe/Berlin", Capacity: 3, SlotMinutes: 60, ReminderLead: new(36 * time.Hour), HostAddress: "h@x.example", Retired: true},
		{ID: "c", Name: "C", Zone: "UTC", Capacity: 1, SlotMinutes: 30, ReminderLead: new(time.Duration(0))},
	}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("Read = %+v, %v", all, err)
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, err := catalog.Read(strings.NewReader(`
resources:
  - {id: Room, name: "", zone: Mars/Base, capacity: 0, slot_minutes: 2000, reminder_lead: soon, host_address: "H <h@x.example>"}
  - {id: a, name: A, zone: UTC, slot_minutes: 30}
  - {id: a, name: B, zone: UTC, slot_minutes: 30, reminder_lead: -1h}
`))
	if err == nil {
		t.Fatal("no mistake was found")
	}
	for _, part := range []string{
		`resource 1 ("Room"): id `, `resource 1 ("Room"): name `, `: zone `, `: capacity `, `: slot_minutes `, `: reminder_lead must be a duration`,
		`: host_address `, `resource 3 ("a"): id is there twice`, `resource 3 ("a"): reminder_lead must be from 0`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in:\n%v", part, err)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "nothing listed": "resources: []", "unknown field": "resources: [{id: a, name: A, zone: UTC, slot_minutes: 30, size: 3}]",
		"unknown section": "rooms: []", "no YAML": "resources: [", "a number in words": "resources: [{id: a, capacity: many}]",
		"field twice": "resources: [{id: a, id: b}]", "two documents": "resources: [{id: a, name: A, zone: UTC, slot_minutes: 1}]\n---\nresources: []",
	} {
		if all, err := catalog.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s is taken: %+v", name, all)
		}
	}
}

func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../../../examples/resources.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := catalog.Read(bytes.NewReader(text))
	if err != nil || len(all) != 3 {
		t.Errorf("%d resources, %v", len(all), err)
	}
}

func TestDifference(t *testing.T) {
	a := booking.Resource{ID: "a", Name: "A", Zone: "UTC", Capacity: 10, SlotMinutes: 30}
	b := a
	b.Capacity, b.ReminderLead, b.Retired = 12, new(time.Hour), true
	for want, got := range map[string]string{
		"a: created": catalog.Difference(booking.Resource{}, a),
		"a: capacity 10 → 12, reminder_lead - → 1h0m0s, retired - → yes": catalog.Difference(a, b),
		"": catalog.Difference(b, b),
	} {
		if got != want {
			t.Errorf("Difference = %q, want %q", got, want)
		}
	}
	var out strings.Builder
	if err := catalog.List(&out, []booking.Resource{a}); err != nil || !strings.Contains(out.String(), "a   A     UTC") {
		t.Errorf("List = %v\n%s", err, out.String())
	}
}
