package relay

import (
	"fmt"
	"time"
)

// clock judges the age of a claim.
type clock struct {
	began time.Time
	limit time.Duration
}

// over returns an error once the claim is older than its limit at now. Both clocks count: the
// monotonic one may stand still while a machine sleeps, the wall clock may be set back.
func (c clock) over(now time.Time) error {
	monotonic, wall := now.Sub(c.began), now.Round(0).Sub(c.began.Round(0))
	if age := max(monotonic, wall); age >= c.limit {
		return fmt.Errorf("the claim is %s old, %s at most", age.Round(time.Millisecond), c.limit)
	}
	return nil
}
