package sendlog

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"
)

// Outcome is how one hand ended.
type Outcome string

// The outcomes of a hand. Only Accepted and NoAnswer can have left a copy.
const (
	Accepted   Outcome = "sent"    // 250 to the dot
	Again      Outcome = "again"   // 4xx to RCPT, DATA or the dot
	Lost       Outcome = "lost"    // ended before the dot without the message's own fault
	Rejected   Outcome = "refused" // 5xx to RCPT, DATA or the dot
	NoAnswer   Outcome = "unknown" // the dot may have been written, no answer came
	Unsendable Outcome = "held"    // there is no mail to send: a person has to look
)

// Result is what became of a hand.
type Result struct {
	Key, Token string // of the hand
	Outcome    Outcome
	Answer     string        // the server's words, or what happened; no person; cut to 1 KiB
	Wait       time.Duration // after Lost: the row is due after this
	Gone       string        // the address, when it refused for good: it is suppressed; else empty
}

var (
	//go:embed write.sql
	writeSQL string
	//go:embed late.sql
	lateSQL string
	//go:embed putoff.sql
	putOffSQL string
)

// Write writes results, in one transaction. A result counts when the row is still in that
// hand. An acceptance counts in any case, by key: see the package comment. Marks is how many
// rows it marked unknown.
//
// Writing a result twice changes nothing, so after an error the caller tries again, for as
// long as it takes.
func (l *Log) Write(ctx context.Context, results []Result) (marks int, err error) {
	var keys, tokens, outcomes, answers, gone []string
	var waits []time.Duration
	for _, r := range results {
		keys, tokens, outcomes = append(keys, r.Key), append(tokens, r.Token), append(outcomes, string(r.Outcome))
		answers, waits, gone = append(answers, clip(r.Answer)), append(waits, r.Wait), append(gone, r.Gone)
	}
	t := l.times
	written, err := l.names(ctx, writeSQL, keys, tokens, outcomes, answers, waits, t.Steps, t.MaxAttempts, t.GiveUp, t.MaxUnknowns, t.Quiet, gone)
	if err != nil {
		return 0, fmt.Errorf("write results: %w", err)
	}
	var late []Result
	var marked []string
	for _, r := range results {
		switch mine := written[name{r.Key, r.Token}]; {
		case r.Outcome == Accepted && !mine:
			late = append(late, r)
		case r.Outcome == NoAnswer && mine:
			marked = append(marked, r.Key)
		}
	}
	if err := l.writeLate(ctx, late); err != nil {
		return len(marked), err
	}
	l.Wake()
	return len(marked), l.putOff(ctx, marked)
}

// writeLate writes acceptances of hands that have lost their rows.
func (l *Log) writeLate(ctx context.Context, results []Result) error {
	if len(results) == 0 {
		return nil
	}
	var keys, tokens, answers []string
	for _, r := range results {
		keys, tokens, answers = append(keys, r.Key), append(tokens, r.Token), append(answers, clip(r.Answer))
	}
	if err := l.exec(ctx, lateSQL, keys, tokens, answers); err != nil {
		return fmt.Errorf("write late results: %w", err)
	}
	return nil
}

// putOff moves what waits behind the quiet times of the marked rows to their ends.
func (l *Log) putOff(ctx context.Context, marked []string) error {
	if len(marked) == 0 {
		return nil
	}
	if err := l.exec(ctx, putOffSQL, marked); err != nil {
		return fmt.Errorf("put off: %w", err)
	}
	return nil
}

// clip makes an answer fit for its column: valid UTF-8 without NUL, at most 1 KiB.
func clip(answer string) string {
	const most = 1024
	answer = strings.ReplaceAll(strings.ToValidUTF8(answer, "?"), "\x00", "?")
	if len(answer) > most {
		answer = strings.ToValidUTF8(answer[:most], "")
	}
	return answer
}
