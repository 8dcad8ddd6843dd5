package oncall

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/slotwise/slotwise/pkg/ops/message"
)

func trace(ctx context.Context, c *call) error {
	words, err := c.parse()
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return c.wrong("name one booking")
	}
	var t message.Trace
	if err := c.ask(ctx, "ops.get.trace", words[0], &t); err != nil {
		return err
	}
	if c.json {
		if err := c.write(t); err != nil {
			return err
		}
	} else {
		Tell(c.out, t)
	}
	if t.Facts == nil && len(t.Messages) == 0 {
		return fmt.Errorf("%w: there is no booking %s", ErrNothing, t.Booking)
	}
	return nil
}

// Tell writes a trace for people: how the booking stands, a line for every message, and then
// what is behind it.
func Tell(w io.Writer, t message.Trace) {
	fmt.Fprintf(w, "booking %s at %s\n", t.Booking, at(&t.At))
	if f := t.Facts; f != nil {
		fmt.Fprintf(w, "  v%d, %s, %s to %s (%s), %s, %s\n", f.Version, f.Status, at(&f.Start), at(&f.End), f.Zone, f.Resource, count(f.Seats, "seat"))
		fmt.Fprintf(w, "  %s\n", told(f))
	} else {
		fmt.Fprintln(w, "  there is no such booking")
	}
	for _, s := range t.Switches {
		if s.Paused {
			fmt.Fprintf(w, "  %s\n", state(s))
		}
	}
	section(w, "messages", verdicts(t))
	section(w, "hands", hands(t))
	section(w, "outbox", outbox(t))
	section(w, "events in BOOKINGS", append(events(t), problem(t.Events.Error)...))
	section(w, "schedules in REMINDERS", append(reminders(t), problem(t.Reminders.Error)...))
	section(w, "operations", operations(t))
	fmt.Fprintf(w, "\naudit: outbox rows up to %d are planned, last pass %s\n", t.Audit.Mark, at(&t.Audit.PassedAt))
	if t.Cut {
		fmt.Fprintln(w, "\nnot everything fitted into the answer: older messages, hands or words were left off")
	}
}

// section writes rows of cells below a heading, or nothing when there are none.
func section(w io.Writer, title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(table, "  %s\n", strings.Join(row, "\t"))
	}
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
}

func told(f *message.Facts) string {
	if f.Erased {
		return "the person was erased: nothing more is owed"
	}
	text := fmt.Sprintf("last owed: to the customer the mail of v%d", f.ToldCustomer)
	if f.ToldHost > 0 {
		text += fmt.Sprintf(", to the host that of v%d", f.ToldHost)
	}
	if f.RemindAt != nil {
		text += ", a reminder at " + at(f.RemindAt)
	}
	return text
}

func verdicts(t message.Trace) (rows [][]string) {
	for _, m := range t.Messages {
		rows = append(rows, []string{m.Key, m.Verdict})
	}
	for _, o := range t.Owed {
		rows = append(rows, []string{fmt.Sprintf("(%s of v%d, %s)", o.Kind, o.Version, o.Role), o.Verdict})
	}
	return rows
}

func hands(t message.Trace) (rows [][]string) {
	for _, m := range t.Messages {
		for _, h := range m.Hands {
			end := outcome(m.Channel, h.Outcome)
			if h.Unknown {
				end += ", marked"
			}
			rows = append(rows, []string{m.Key, fmt.Sprint(h.N), at(&h.HandedAt), at(h.EndedAt), end, line(h.Answer), h.Token})
		}
	}
	return rows
}

// outcome is what a hand came to. A webhook that is planned again has failed.
func outcome(channel, outcome string) string {
	if channel == "webhook" && outcome == "planned" {
		return "failed"
	}
	return outcome
}

func outbox(t message.Trace) (rows [][]string) {
	for _, o := range t.Outbox {
		var how string
		switch {
		case o.ParkedAt != nil:
			how = "parked " + at(o.ParkedAt)
		case o.PublishedAt != nil:
			how = "published " + at(o.PublishedAt)
		default:
			how = "not published"
		}
		if o.Attempts > 0 {
			how += ", " + count(o.Attempts, "refusal") + ", the last: " + line(o.LastError)
		}
		rows = append(rows, []string{fmt.Sprint(o.ID), o.MessageID, "written " + at(&o.CreatedAt), how})
	}
	return rows
}

func events(t message.Trace) (rows [][]string) {
	for _, e := range t.Events.Found {
		rows = append(rows, []string{fmt.Sprint(e.Sequence), e.ID, "stored " + at(&e.Stored), e.Subject})
	}
	return rows
}

func reminders(t message.Trace) (rows [][]string) {
	for _, r := range t.Reminders.Found {
		how := "has fired, the planner has not come to it"
		if r.Schedule != nil {
			how = "fires " + at(r.Schedule)
		}
		rows = append(rows, []string{r.Subject, "stored " + at(&r.Stored), how})
	}
	return rows
}

func operations(t message.Trace) (rows [][]string) {
	for _, o := range t.Operations {
		arguments, err := json.Marshal(o.Arguments)
		if err != nil {
			arguments = nil
		}
		affected := ""
		if o.Affected != nil {
			affected = fmt.Sprintf("changed %d", *o.Affected)
		}
		rows = append(rows, []string{at(&o.At), o.Operator, o.Operation, string(arguments), affected})
	}
	return rows
}

func problem(text string) [][]string {
	if text == "" {
		return nil
	}
	return [][]string{{text}}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
