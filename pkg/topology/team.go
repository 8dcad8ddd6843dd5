package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
)

// Team is a service team that consumes booking events by a durable consumer of its own,
// team-<name>. Teams get no right to create consumers: that right would let them have any
// message delivered anywhere.
type Team struct {
	Name      string       `yaml:"name"`
	Events    []event.Type `yaml:"events"`    // default: all
	Resources []string     `yaml:"resources"` // default: all
}

// Check returns what is wrong with the team, or nil.
func (t Team) Check() error {
	if id.Check(t.Name) != nil {
		return fmt.Errorf("team %q: the name must be one word of letters, digits, hyphens and underscores", t.Name)
	}
	for _, e := range t.Events {
		if !slices.Contains(event.Types, e) {
			return fmt.Errorf("team %s: there is no event %q", t.Name, e)
		}
	}
	for _, r := range t.Resources {
		if id.Check(r) != nil {
			return fmt.Errorf("team %s: %q can't be a resource", t.Name, r)
		}
	}
	return nil
}

// Consumer returns the team's durable consumer: explicit acknowledgement, everything that the
// stream still holds.
func (t Team) Consumer() Consumer {
	return Consumer{Stream: Bookings, Name: "team-" + t.Name, Shape: func(c *jetstream.ConsumerConfig) {
		c.DeliverPolicy = jetstream.DeliverAllPolicy
		c.AckPolicy = jetstream.AckExplicitPolicy
		c.AckWait = 30 * time.Second
		c.MaxDeliver = -1
		c.MaxAckPending = 1000
		filter(c, t.subjects()...)
	}}
}

// subjects are what the team wants; none: everything.
func (t Team) subjects() []string {
	if len(t.Events) == 0 && len(t.Resources) == 0 {
		return nil
	}
	events, resources := t.Events, t.Resources
	if len(events) == 0 {
		events = event.Types
	}
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	var all []string
	for _, e := range events {
		for _, r := range resources {
			all = append(all, string(e)+"."+r+".*")
		}
	}
	return all
}
