//go:build rehearsal

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// setting says where to do what.
const setting = "SLOTWISE_FAILPOINTS"

// Hit is called at a step, each time it is passed. It acts if this pass of the step is the one
// that the setting means.
func Hit(step string) {
	o := orders()[step]
	if o == nil || o.passes.Add(1) != o.pass {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint %s: %s\n", step, o.action)
	actions[o.action]()
}

// order is what to do at one pass of a step.
type order struct {
	action string
	pass   int64
	passes atomic.Int64 // so far
}

// orders are those of the environment, by step. A process with wrong ones ends at its first step.
var orders = sync.OnceValue(func() map[string]*order {
	all, err := parse(os.Getenv(setting))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", setting, err)
		os.Exit(2) //nolint:forbidigo // a rehearsal of nothing would pass
	}
	return all
})

var actions = map[string]func(){
	"kill": func() {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // of oneself: it can't fail
		select {}
	},
	"stop": func() {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) // the same
		time.Sleep(20 * time.Millisecond)                   //nolint:forbidigo // threads stop one after the other, and a stopped one can't ask
	},
	"exit": func() { os.Exit(1) }, //nolint:forbidigo // what it is for
}

// parse reads a list of step=action:n.
func parse(text string) (map[string]*order, error) {
	all := map[string]*order{}
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		step, what, _ := strings.Cut(one, "=")
		action, pass, counted := strings.Cut(what, ":")
		o := &order{action: action, pass: 1}
		if counted {
			o.pass, _ = strconv.ParseInt(pass, 10, 64) // 0 is refused
		}
		if step == "" || actions[action] == nil || o.pass < 1 || all[step] != nil {
			return nil, errors.New("must be a list of step=action:n with the actions kill, stop and exit, each step once; wrong is " + one)
		}
		all[step] = o
	}
	return all, nil
}
