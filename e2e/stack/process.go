package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/pkg/retry"
)

// Process is one part of the stack: a program that is started, and started again when it
// ends without having been asked to.
type Process struct {
	Name string
	path string
	args []string
	env  []string
	out  io.Writer // gets what the program prints

	keep   bool // start again when it dies
	notice func(format string, args ...any)

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has been waited for
	quit    chan struct{} // closed when the program is not wanted any more
	watched sync.WaitGroup
}

var errExitedZero = errors.New("exit status 0")

// Start starts the program; it is an error when it runs already.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("%s runs already", p.Name)
	}
	p.quit = make(chan struct{})
	return p.start()
}

// start is Start with the lock held.
func (p *Process) start() error {
	cmd := exec.Command(p.path, p.args...) //nolint:noctx,gosec // its life is Stop's to end; programs of our own
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, p.out, p.out
	cmd.WaitDelay = 2 * time.Second
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	quit := p.quit // end forgets it
	p.watched.Go(func() { p.watch(cmd, ended, quit) })
	return nil
}

// watch waits for the program's end, and starts it again unless it was asked to end.
func (p *Process) watch(cmd *exec.Cmd, ended, quit chan struct{}) {
	err := cmd.Wait()
	p.mu.Lock()
	p.cmd = nil
	p.mu.Unlock()
	close(ended)
	wait := retry.Backoff{Base: time.Second, Max: 10 * time.Second}
	for n := 1; p.keep; n++ {
		select {
		case <-quit:
			return
		default:
		}
		p.notice("%s ended (%v) and is started again", p.Name, cmp.Or(err, errExitedZero))
		select {
		case <-quit:
			return
		case <-time.After(wait.Delay(n)):
		}
		if err = p.restart(quit); err == nil {
			return
		}
	}
}

// restart starts the program unless it was asked to end, or somebody else has started it.
func (p *Process) restart(quit chan struct{}) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-quit:
		return nil
	default:
	}
	if p.cmd != nil {
		return nil
	}
	return p.start()
}

// Signal sends s to the program, if it runs. SIGSTOP freezes it and SIGCONT thaws it; SIGKILL
// is a crash, after which it is started again if the stack was told to keep its parts.
func (p *Process) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("signal %s: it does not run", p.Name)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Stop asks the program to end (SIGTERM, and SIGCONT for one that is frozen), kills it when ctx
// ends first, and waits for it.
func (p *Process) Stop(ctx context.Context) error { return p.end(ctx, syscall.SIGTERM) }

// Kill ends the program at once (SIGKILL), for good, and waits for it.
func (p *Process) Kill() error { return p.end(context.Background(), syscall.SIGKILL) }

func (p *Process) end(ctx context.Context, s syscall.Signal) error {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	if p.quit != nil {
		close(p.quit)
		p.quit = nil
	}
	p.mu.Unlock()
	defer p.watched.Wait()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.Name, err)
	}
	cmd.Process.Signal(syscall.SIGCONT) //nolint:errcheck // it may have ended meanwhile
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		cmd.Process.Kill() //nolint:errcheck // it may have ended meanwhile
		<-ended
		return fmt.Errorf("%s did not end in time and was killed", p.Name)
	}
}

// Running reports whether the program runs at this moment.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// PID is the program's process id, 0 when it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}
