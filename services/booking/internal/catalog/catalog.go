// Package catalog reads the file that lists what can be booked, and shows resources to people.
package catalog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"go.yaml.in/yaml/v3"
)

type file struct {
	Resources []entry `yaml:"resources"`
}

type entry struct {
	ID           string  `yaml:"id"`
	Name         string  `yaml:"name"`
	Zone         string  `yaml:"zone"`
	Capacity     *int    `yaml:"capacity"` // left out: 1
	SlotMinutes  int     `yaml:"slot_minutes"`
	ReminderLead *string `yaml:"reminder_lead"` // left out: the service's
	HostAddress  string  `yaml:"host_address"`
	Retired      bool    `yaml:"retired"`
}

// Read reads a file of resources: YAML, in which an unknown field is a mistake. The error
// lists all mistakes at once.
func Read(r io.Reader) ([]booking.Resource, error) {
	decoder := yaml.NewDecoder(r)
	decoder.KnownFields(true)
	var f file
	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read resources: %w", err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one document")
	}
	if len(f.Resources) == 0 {
		return nil, errors.New("the file lists no resources")
	}
	all := make([]booking.Resource, 0, len(f.Resources))
	var mistakes []error
	for i, e := range f.Resources {
		resource, faults := e.resource()
		if slices.ContainsFunc(all, func(o booking.Resource) bool { return o.ID == resource.ID }) {
			faults = append(faults, booking.Fault{Field: "id", Detail: "is there twice"})
		}
		for _, fault := range faults {
			mistakes = append(mistakes, fmt.Errorf("resource %d (%q): %s %s", i+1, resource.ID, fault.Field, fault.Detail))
		}
		all = append(all, resource)
	}
	return all, errors.Join(mistakes...)
}

func (e entry) resource() (booking.Resource, []booking.Fault) {
	r := booking.Resource{
		ID: e.ID, Name: e.Name, Zone: e.Zone, Capacity: 1, SlotMinutes: e.SlotMinutes,
		HostAddress: e.HostAddress, Retired: e.Retired,
	}
	if e.Capacity != nil {
		r.Capacity = *e.Capacity
	}
	if e.ReminderLead == nil {
		return r, r.Check()
	}
	lead, err := time.ParseDuration(*e.ReminderLead)
	r.ReminderLead = &lead
	faults := r.Check()
	if err != nil {
		faults = append(faults, booking.Fault{Field: "reminder_lead", Detail: "must be a duration such as 24h or 90m, or 0 for none"})
	}
	return r, faults
}
