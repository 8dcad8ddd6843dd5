package hooktest

import (
	"bytes"
	"maps"
	"net/http"
	"time"
)

// Fault is one misbehaviour. The zero value of each field changes nothing.
type Fault struct {
	// Which requests: those for which all of these hold.
	Path  string             // exactly; "": any
	Skip  int                // let this many pass first
	Times int                // then misbehave this often; 0: always
	Match func(Request) bool // anything else

	// What happens, in this order.
	Delay  time.Duration
	Until  <-chan struct{} // waits, after Delay, until this is closed
	Silent bool            // no answer; the connection stays open until the sender leaves
	Close  bool            // the connection is closed without an answer
	Status int             // 0: 204
	Header http.Header
	Body   string
	Size   int  // so many letters x that follow Body
	Stuck  bool // the body has no end: after what there is of it, silence
}

// Script replaces all faults. Of those that fit a request, the first counts.
func (s *Server) Script(faults ...Fault) {
	rules := make([]*rule, len(faults))
	for i, f := range faults {
		rules[i] = &rule{Fault: f}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = rules
}

// rule is a Fault at work.
type rule struct {
	Fault
	seen int
}

// hit reports whether the fault is for this request, and counts it.
func (r *rule) hit(req Request) bool {
	if r.Path != "" && r.Path != req.Path || r.Match != nil && !r.Match(req) {
		return false
	}
	r.seen++
	return r.seen > r.Skip && (r.Times == 0 || r.seen <= r.Skip+r.Times)
}

// answer does what the fault says, until the sender or the test ends.
func (f Fault) answer(w http.ResponseWriter, r *http.Request, ending <-chan struct{}) {
	wait := func(until <-chan struct{}) bool {
		select {
		case <-until:
			return true
		case <-r.Context().Done():
		case <-ending:
		}
		return false
	}
	if f.Delay > 0 {
		passed := make(chan struct{})
		timer := time.AfterFunc(f.Delay, func() { close(passed) })
		defer timer.Stop()
		if !wait(passed) {
			return
		}
	}
	if f.Until != nil && !wait(f.Until) {
		return
	}
	if f.Silent && !wait(nil) || f.Close {
		panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler of net/http closes its connection
	}
	maps.Copy(w.Header(), f.Header)
	if f.Status == 0 {
		f.Status = http.StatusNoContent
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write([]byte(f.Body)) // a status without a body takes none; a sender that has gone neither
	for chunk := bytes.Repeat([]byte("x"), 32<<10); f.Size > 0; f.Size -= len(chunk) {
		if _, err := w.Write(chunk[:min(f.Size, len(chunk))]); err != nil {
			return
		}
	}
	if f.Stuck {
		_ = http.NewResponseController(w).Flush()
		wait(nil)
	}
}
