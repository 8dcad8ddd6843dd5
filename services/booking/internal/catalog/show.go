package catalog

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// names are the columns beside the id, as the file has them.
var names = []string{"name", "zone", "capacity", "slot_minutes", "reminder_lead", "host_address", "retired"}

func columns(r booking.Resource) []string {
	lead, retired := "-", "-"
	if r.ReminderLead != nil {
		lead = r.ReminderLead.String()
	}
	if r.Retired {
		retired = "yes"
	}
	host := r.HostAddress
	if host == "" {
		host = "-"
	}
	return []string{r.Name, r.Zone, strconv.Itoa(r.Capacity), strconv.Itoa(r.SlotMinutes), lead, host, retired}
}

// Difference says in one line what became of a resource, or is empty when nothing did. A
// resource without an id was not there.
func Difference(before, after booking.Resource) string {
	if before.ID == "" {
		return after.ID + ": created"
	}
	was, is := columns(before), columns(after)
	var changes []string
	for i, name := range names {
		if was[i] != is[i] {
			changes = append(changes, fmt.Sprintf("%s %s → %s", name, was[i], is[i]))
		}
	}
	if changes == nil {
		return ""
	}
	return after.ID + ": " + strings.Join(changes, ", ")
}

// List prints a table of resources.
func List(w io.Writer, all []booking.Resource) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "id\t%s\n", strings.Join(names, "\t"))
	for _, r := range all {
		fmt.Fprintf(table, "%s\t%s\n", r.ID, strings.Join(columns(r), "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print resources: %w", err)
	}
	return nil
}
