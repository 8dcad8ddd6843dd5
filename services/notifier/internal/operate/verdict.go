package operate

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/ops/message"
)

// view is what a verdict on one message needs to know of everything else.
type view struct {
	now      time.Time // on the database's clock
	switches []message.Switch
	others   []message.Message // of the same booking; none in a list
}

// look reads the clock and the switches.
func look(ctx context.Context, tx pgx.Tx) (view, error) {
	var v view
	if err := tx.QueryRow(ctx, `select clock_timestamp()`).Scan(&v.now); err != nil {
		return v, fmt.Errorf("read the clock: %w", err)
	}
	var err error
	v.switches, err = switches(ctx, tx)
	return v, err
}

// judged returns the messages with a verdict each.
func (v view) judged(messages []message.Message) []message.Message {
	for i := range messages {
		messages[i].Verdict = v.verdict(messages[i])
	}
	return messages
}

// verdict tells in one line how a message stands, and what it waits for.
func (v view) verdict(m message.Message) string {
	switch m.State {
	case "sent":
		return "sent " + at(m.AcceptedAt) + " (" + count(m.Tries, "try", "tries") + copies(m.Unknowns) + ")" + bounced(m)
	case "handed":
		return v.inHand(m)
	case "refused":
		if strings.HasPrefix(m.Reason, "suppressed: ") {
			return "refused, not tried: " + line(m.Reason)
		}
		return "refused " + at(m.AnsweredAt) + ": " + line(m.Reason)
	case "held":
		return "held: " + line(m.Reason) + marks(" (", m.Unknowns, ")")
	case "skipped":
		return "skipped: " + line(m.Reason) + delivered(m) + v.successor(m)
	case "unknown":
		return "unknown: no answer to the hand of " + at(m.HandedAt) + marks(", ", m.Unknowns, "") + "; " + v.waits(m)
	default:
		return v.waits(m)
	}
}

func (v view) inHand(m message.Message) string {
	if m.LeaseUntil != nil && m.LeaseUntil.Before(v.now) {
		return "in hand since " + at(m.HandedAt) + ", but its lease is over: the sweep marks it unknown within seconds, if a notifier runs"
	}
	return "in hand since " + at(m.HandedAt) + " (" + nth(m.Tries) + " try)"
}

// waits tells what a planned or unknown message waits for.
func (v view) waits(m message.Message) string {
	switch paused, other := v.paused(m), v.ahead(m); {
	case m.Channel == "event":
		return "waiting for the audit, which tries every minute to read this event"
	case paused != nil:
		return "waiting: " + paused.Name + be(paused.Name) + "paused by " + paused.ChangedBy + " since " + at(&paused.ChangedAt)
	case other != nil && other.State == "handed":
		return "waiting until " + other.Key + " is out of hand: one dialogue for each booking and role"
	case other != nil:
		return "waiting: quiet until " + at(other.QuietUntil) + ", because " + other.Key + " may still arrive"
	case m.DueAt.After(v.now) && m.Attempts > 0:
		return fmt.Sprintf("waiting: next try at %s; %s, the last with %s", at(&m.DueAt), failures(m), quoted(m.Reason))
	case m.DueAt.After(v.now):
		return "waiting: due at " + at(&m.DueAt)
	case v.fresh(m):
		return "waiting: due since " + at(&m.DueAt) + v.resumed(m) + "; a sender takes it within " + poll.String() + tried(m)
	case m.Tries > 0:
		return "waiting for " + server(m) + ": due since " + at(&m.DueAt) + v.paced(m) + tried(m)
	default:
		return "waiting for " + server(m) + ": due since " + at(&m.DueAt) + v.paced(m) + ", not tried yet"
	}
}

// tried tells of the tries that a due message has had.
func tried(m message.Message) string {
	if m.Tries == 0 {
		return ""
	}
	return ", " + count(m.Tries, "try", "tries") + " so far, the last ended with " + quoted(m.Answer)
}

// failures counts a message's tries that failed for now.
func failures(m message.Message) string {
	if m.Channel == "webhook" {
		return count(m.Attempts, "try", "tries") + " failed"
	}
	return count(m.Attempts, "try was", "tries were") + " refused for now"
}

// be is the verb between a switch and how it stands.
func be(name string) string {
	if name == "webhooks" {
		return " are "
	}
	return " is "
}

// poll is how long a sender may not have looked for what is due: the Poll of packages sendlog
// and webhook.
const poll = 5 * time.Second

// fresh reports whether the senders may not have seen yet that m is due and not paused: it is no
// server that it waits for.
func (v view) fresh(m message.Message) bool {
	return v.now.Sub(m.DueAt) < poll || v.resumed(m) != "" && v.paced(m) == ""
}

// resumed tells when the pause ended behind which m has become due.
func (v view) resumed(m message.Message) string {
	if s := v.turned(m); s != nil && s.ChangedAt.After(m.DueAt) && v.now.Sub(s.ChangedAt) < poll {
		return ", " + s.Name + " resumed at " + at(&s.ChangedAt)
	}
	return ""
}

// turned is the switch that m obeys, if it is there.
func (v view) turned(m message.Message) *message.Switch {
	name := map[string]string{"email": "mail", "webhook": "webhooks"}[m.Channel]
	for i, s := range v.switches {
		if s.Name == name {
			return &v.switches[i]
		}
	}
	return nil
}

// backlog is how long past due a mail is that SEND_RATE paces.
const backlog = 10 * time.Minute

func (v view) paced(m message.Message) string {
	if m.Channel == "email" && v.now.Sub(m.DueAt) >= backlog {
		return " (backlog: SEND_RATE paces it)"
	}
	return ""
}

// server is what a due message waits for.
func server(m message.Message) string {
	if m.Channel == "webhook" {
		return "its endpoint"
	}
	return "SMTP"
}

// paused is the switch that keeps m from being handed, if any.
func (v view) paused(m message.Message) *message.Switch {
	if s := v.turned(m); s != nil && s.Paused {
		return s
	}
	return nil
}

// ahead is the message of the same booking and role that keeps m from being handed: one in
// hand, or the one whose quiet time ends last.
func (v view) ahead(m message.Message) *message.Message {
	var found *message.Message
	if m.Channel != "email" {
		return nil // webhooks do not wait for each other
	}
	for i, o := range v.others {
		switch {
		case o.Role != m.Role || o.Channel != m.Channel || o.Key == m.Key:
		case o.State == "handed":
			return &v.others[i]
		case o.QuietUntil != nil && o.QuietUntil.After(v.now) && (found == nil || o.QuietUntil.After(*found.QuietUntil)):
			found = &v.others[i]
		}
	}
	return found
}

var superseded = regexp.MustCompile(`^superseded by v(\d+)$`)

// successor follows "superseded by v<n>" to the end of the chain and tells how that stands.
func (v view) successor(m message.Message) string {
	next, ok := successorVersion(m)
	if !ok || len(v.others) == 0 {
		return ""
	}
	end := m
	for ok {
		found := v.mail(m.Role, next)
		if found == nil {
			return fmt.Sprintf("; the mail of v%d is not planned yet", next)
		}
		end = *found
		next, ok = successorVersion(end)
	}
	return "; its successor " + end.Key + ": " + v.verdict(end)
}

// successorVersion is the n of a message that was superseded by v<n>. It is greater than the
// message's own version, so that chains end.
func successorVersion(m message.Message) (int64, bool) {
	match := superseded.FindStringSubmatch(m.Reason)
	if m.State != "skipped" || match == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	return n, err == nil && n > m.Version
}

// mail finds the first mail of that version to role.
func (v view) mail(role string, version int64) *message.Message {
	for i, o := range v.others {
		if o.Role == role && o.Version == version && isMail(o.Kind) {
			return &v.others[i]
		}
	}
	return nil
}

func isMail(kind string) bool { return kind == "confirm" || kind == "move" || kind == "cancel" }

// delivered tells whether a skipped message may have arrived all the same.
func delivered(m message.Message) string {
	switch {
	case m.AcceptedAt != nil:
		return ", but delivered: accepted " + at(m.AcceptedAt)
	case m.Unknowns > 0:
		return ", maybe delivered" + marks(" (", m.Unknowns, ")")
	}
	return ""
}

// bounced tells that an accepted mail could not be delivered after all, or not yet.
func bounced(m message.Message) string {
	switch words, delayed := strings.CutPrefix(line(m.Reason), "delayed: "); {
	case m.BouncedAt != nil:
		return strings.TrimSuffix(", but came back "+at(m.BouncedAt)+": "+strings.TrimPrefix(words, "bounced: "), ": ")
	case delayed:
		return ", delayed behind the mail server: " + words
	}
	return ""
}

// copies tells how many copies there may be beyond the first.
func copies(unknowns int) string {
	if unknowns == 0 {
		return ""
	}
	return ", maybe " + count(unknowns, "copy", "copies") + " more"
}

func marks(before string, unknowns int, after string) string {
	if unknowns == 0 {
		return ""
	}
	return before + count(unknowns, "unknown mark", "unknown marks") + after
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func nth(n int) string {
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// at writes an instant for people: UTC, whole seconds.
func at(t *time.Time) string {
	if t == nil {
		return "at an unknown time"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// quoted is a server's answer, told apart from our own words.
func quoted(answer string) string {
	if answer == "" {
		return "no answer"
	}
	return strconv.Quote(line(answer))
}

// line is text on one line: answers of servers may have several.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }
