//go:build rehearsal

package sendlog

import (
	"strings"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
)

// rehearse replaces times by those in SLOTWISE_TIMES, such as "lease=600ms,renew=200ms".
func rehearse(env *config.Reader, t Times) Times {
	const name = "SLOTWISE_TIMES"
	text := env.String(name, "", "times of the protocol that differ, as name=duration,… (this binary is for rehearsals only)")
	byName := map[string]*time.Duration{
		"dot": &t.Dot, "answer": &t.Answer, "lease": &t.Lease, "renew": &t.Renew, "cap": &t.Cap, "sweep": &t.Sweep, "quiet": &t.Quiet,
		"giveup": &t.GiveUp, "late": &t.Late, "catchup": &t.CatchUp, "overdue": &t.Overdue,
		"poll": &t.Poll, "connect": &t.Connect, "greet": &t.Greet, "idle": &t.Idle, "base": &t.Base, "max": &t.Max,
		"audit": &t.Audit, "young": &t.Young, "missed": &t.Missed, "rewind": &t.Rewind,
	}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		d, err := time.ParseDuration(value)
		switch {
		case key == "step" && err == nil: // one wait for every 4xx
			t.Steps = []time.Duration{d}
		case byName[key] != nil && err == nil:
			*byName[key] = d
		default:
			env.Mistake(name, "must be name=duration,… with names such as lease or quiet")
		}
	}
	return t
}
