package daemon

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// Script is the small shell program. Run by `sh -c Script name signal folder command…` it runs
// the command until its standard input ends: [Start] does that here, a container's entry
// point may do it there.
//
//go:embed watch.sh
var Script string

// Command is what to run.
type Command struct {
	Args   []string // the program's path and its arguments
	User   User
	Dir    string    // the server's own folder, when that may lie where only root may enter
	Signal string    // that ends it, such as INT
	Remove string    // a folder that is removed at the end, whoever ended it; "" for none
	Out    io.Writer // gets what it prints
}

// Process is a server that was started.
type Process struct {
	name string
	cmd  *exec.Cmd
	pipe io.Closer // closing it ends the server
	done chan struct{}
}

// Start starts c and returns at once. The server gets nothing of our environment.
func Start(c Command) (*Process, error) {
	args := append([]string{"-c", Script, "watch", c.Signal, c.Remove}, c.Args...)
	cmd := exec.Command("/bin/sh", args...) //nolint:noctx // its life is Stop's to end
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}
	cmd.Stdout, cmd.Stderr = c.Out, c.Out
	cmd.SysProcAttr = c.User.Attributes(c.Dir)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the watch pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s as user %s: %w", c.Args[0], c.User.name, err)
	}
	p := &Process{name: c.Args[0], cmd: cmd, pipe: pipe, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

// wait owns the shell until it ends.
func (p *Process) wait() {
	_ = p.cmd.Wait() // its log tells why it ended
	close(p.done)
}

// Done is closed when the server has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the server and waits for it; when ctx ends first it is killed.
func (p *Process) Stop(ctx context.Context) error {
	_ = p.pipe.Close() // closed already after a second Stop
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
		return errors.Join(fmt.Errorf("stop %s: killed it: %w", p.name, ctx.Err()), err)
	}
}
