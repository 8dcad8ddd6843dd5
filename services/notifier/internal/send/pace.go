package send

import "time"

// pace is a bucket of tokens, one for each mail of the backlog that may go now. It holds at
// most a second's worth; a debt is paid before the next mail goes.
type pace struct {
	rate   float64 // tokens a second; 0: no limit
	tokens float64
	at     time.Time
}

func newPace(rate int, now time.Time) *pace {
	p := &pace{rate: float64(rate), at: now}
	p.tokens = p.burst()
	return p
}

func (p *pace) burst() float64 { return max(p.rate, 1) }

// allow returns how many of n mails may go now.
func (p *pace) allow(n int, now time.Time) int {
	if p.rate == 0 {
		return n
	}
	p.tokens = min(p.burst(), p.tokens+now.Sub(p.at).Seconds()*p.rate)
	p.at = now
	return min(n, max(0, int(p.tokens)))
}

func (p *pace) spend(n int) { p.tokens -= float64(n) }

// binds returns after how long another mail may go, while the bucket is not full: so long
// there may be mails that wait for their turn.
func (p *pace) binds() (wait time.Duration, binds bool) {
	if p.rate == 0 || p.tokens >= p.burst() {
		return 0, false
	}
	return time.Duration(max(0, 1-p.tokens) / p.rate * float64(time.Second)), true
}
