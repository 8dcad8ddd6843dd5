package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/testkit/daemon"
)

// local is a server that runs from binaries on this machine.
type local struct {
	*daemon.Process
	trash string // a temporary folder, removed at the end
}

// startBinaries is the second way.
func startBinaries(ctx context.Context, o Options) (*Server, error) {
	bins, err := choose(findBinaries(ctx), o.Dir)
	if err != nil {
		return nil, err
	}
	who, err := daemon.NotRoot()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	for try := 1; ; try++ {
		c := cluster{Options: o, bins: bins, owner: who}
		s, err := c.start(ctx)
		if err == nil {
			return s, nil
		}
		if c.trash != "" {
			err = errors.Join(err, os.RemoveAll(c.trash))
		}
		var busy *BusyError
		if !errors.As(err, &busy) || o.Addr != "" || try == 3 {
			return nil, err
		} // else somebody took the free port in between
	}
}

// cluster is one data folder and what is needed to run it.
type cluster struct {
	Options
	bins  binaries
	owner daemon.User
	trash string
}

func (c *cluster) start(ctx context.Context) (*Server, error) {
	var err error
	if c.Dir == "" {
		if c.trash, err = daemon.TempDir(c.owner, "slotwise-postgres-"); err != nil {
			return nil, err
		}
		c.Dir = filepath.Join(c.trash, "data")
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("find data folder: %w", err)
	}
	if c.Addr == "" {
		if c.Addr, err = freeAddr(ctx); err != nil {
			return nil, err
		}
	}
	if err := waitUnlocked(ctx, c.Dir); err != nil {
		return nil, err
	}
	if err := checkFree(ctx, c.Addr); err != nil {
		return nil, err
	}
	if err := c.makeData(ctx); err != nil {
		return nil, err
	}
	return c.run(ctx)
}

// makeData makes the data folder unless it is there. It is renamed into place when complete, so
// that a killed initdb leaves nothing that looks like data.
func (c *cluster) makeData(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.Dir, "PG_VERSION")); err == nil {
		return nil
	}
	half := c.Dir + ".new"
	if err := errors.Join(os.RemoveAll(half), os.MkdirAll(half, 0o700), c.owner.Own(half)); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	args := []string{"-D", half, "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"}
	if !c.Durable {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.bins.dir, "initdb"), args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC"}
	cmd.SysProcAttr = c.owner.Attributes(c.Dir)
	if c.Password == "" {
		cmd.Args = append(cmd.Args, "-A", "trust")
	} else {
		// A file: another user may not open the pipe that would be /dev/stdin.
		words := half + ".password"
		if err := os.WriteFile(words, []byte(c.Password+"\n"), 0o600); err != nil {
			return fmt.Errorf("write the password for initdb: %w", err)
		}
		defer os.Remove(words) //nolint:errcheck // it lies beside the data it protects
		if err := c.owner.Own(words); err != nil {
			return err
		}
		cmd.Args = append(cmd.Args, "-A", "scram-sha-256", "--pwfile="+words)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s as %s: %w\n%s", half, c.owner, err, out)
	}
	if err := os.Remove(c.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is neither empty nor a data folder: %w", c.Dir, err)
	}
	if err := os.Rename(half, c.Dir); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	return nil
}

// run starts the server and waits until it answers.
func (c *cluster) run(ctx context.Context) (*Server, error) {
	log, err := os.Create(filepath.Join(c.Dir, "server.log"))
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the server writes to its own copy
	settings, err := settingArgs(c.Options)
	if err != nil {
		return nil, err
	}
	signal := "INT" // PostgreSQL's fast shutdown, with a checkpoint
	if c.trash != "" {
		signal = "QUIT" // at once: the data is thrown away
	}
	args := append([]string{filepath.Join(c.bins.dir, "postgres"), "-D", c.Dir}, settings...)
	command := daemon.Command{Args: args, User: c.owner, Dir: c.Dir, Signal: signal, Remove: c.trash, Out: log}
	if c.Log != nil {
		command.Out = io.MultiWriter(log, c.Log)
	}
	process, err := daemon.Start(command)
	if err != nil {
		return nil, err
	}
	url := adminURL(c.Addr, c.Password)
	if err := waitReady(ctx, url, process.Done()); err != nil {
		err = fmt.Errorf("start PostgreSQL in %s: %w\n%s", c.Dir, err, tailOf(log))
		return nil, errors.Join(err, process.Stop(context.WithoutCancel(ctx)), checkFree(ctx, c.Addr))
	}
	how := fmt.Sprintf("PostgreSQL %d of %s", c.bins.major, c.bins.dir)
	return &Server{AdminURL: url, How: how, process: local{Process: process, trash: c.trash}}, nil
}

func (p local) Stop(ctx context.Context) error {
	err := p.Process.Stop(ctx)
	if p.trash != "" {
		err = errors.Join(err, os.RemoveAll(p.trash))
	}
	return err
}

// waitUnlocked waits until no living server uses the data folder, and removes what a dead one
// left: PostgreSQL takes the number of a dead server's process for alive when it is in use again.
func waitUnlocked(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	lock := filepath.Join(dir, "postmaster.pid")
	for {
		content, err := os.ReadFile(lock)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read lock of data folder: %w", err)
		}
		line, _, _ := strings.Cut(string(content), "\n")
		pid, err := strconv.Atoi(line)
		if err != nil || !uses(pid, dir) {
			if err := os.Remove(lock); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove lock of a dead server: %w", err)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("data folder %s is in use by another PostgreSQL, process %d", dir, pid)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// uses reports whether process pid is a server of the data folder: its working folder is there.
func uses(pid int, dir string) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && syscall.Kill(pid, 0) == nil // not ours to look at
	}
	target, err := filepath.EvalSymlinks(dir)
	return err == nil && cwd == target
}

// tailOf returns the end of a server's log, for an error message. The open file is read: a
// temporary folder has gone by now.
func tailOf(log *os.File) string {
	content := make([]byte, tailSize)
	end, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	n, err := log.ReadAt(content, max(0, end-int64(len(content))))
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return strings.TrimSpace(string(content[:n]))
}
