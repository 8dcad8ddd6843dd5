package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// createClusterConf tells Debian's package not to start a server of its own on port 5432.
const createClusterConf = "/etc/postgresql-common/createcluster.conf"

// startPackage is the fourth way: the distribution's package, then its binaries.
func startPackage(ctx context.Context, o Options) (*Server, error) {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return nil, fmt.Errorf("%w: no apt-get", errUnavailable)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: not root", errUnavailable)
	}
	say := o.Log
	if say == nil {
		say = os.Stderr
	}
	fmt.Fprintln(say, "no PostgreSQL here: installing the distribution's package with apt-get")
	for _, args := range [][]string{{"update"}, {"install", "-y", "postgresql-common"}} {
		if err := aptGet(ctx, say, apt, args...); err != nil {
			return nil, err
		}
	}
	conf, err := os.OpenFile(createClusterConf, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("keep the package from starting a server: %w", err)
	}
	_, err = fmt.Fprintln(conf, "create_main_cluster = false")
	if err := errors.Join(err, conf.Close()); err != nil {
		return nil, fmt.Errorf("keep the package from starting a server: %w", err)
	}
	if err := aptGet(ctx, say, apt, "install", "-y", "postgresql"); err != nil {
		return nil, err
	}
	return startBinaries(ctx, o)
}

func aptGet(ctx context.Context, log io.Writer, apt string, args ...string) error {
	cmd := exec.CommandContext(ctx, apt, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: apt-get %v: %w", errUnavailable, args, err)
	}
	return nil
}
