package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/slotwise/slotwise/testkit/daemon"
)

// createClusterConf tells Debian's package not to make a server of its own for port 5432.
const createClusterConf = "/etc/postgresql-common/createcluster.conf"

// startPackage is the fourth way: the distribution's package, then its binaries.
func startPackage(ctx context.Context, o Options) (*Server, error) {
	say := io.Writer(os.Stderr)
	if o.Log != nil {
		say = o.Log
	}
	if err := daemon.Install(ctx, say, "postgresql-common"); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	conf, err := os.OpenFile(createClusterConf, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("keep the package from making a server: %w", err)
	}
	_, err = fmt.Fprintln(conf, "create_main_cluster = false")
	if err := errors.Join(err, conf.Close()); err != nil {
		return nil, fmt.Errorf("keep the package from making a server: %w", err)
	}
	if err := daemon.Install(ctx, say, "postgresql"); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	return startBinaries(ctx, o)
}
