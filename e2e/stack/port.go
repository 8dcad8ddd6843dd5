package stack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Free ports are looked for below those that Linux gives to outgoing connections: one of these
// may be taken again before the program listens on it (seen once in forty starts on a busy
// machine).
const (
	lowestPort = 15000
	ephemeral  = 32768
)

// free returns port if nobody listens on it, or any free one when it is 0. That one is
// reserved for this stack: between the look and the program's start another stack would
// otherwise find it free as well.
func (c *Config) free(ctx context.Context, port int) (int, error) {
	if port != 0 {
		return port, bindable(ctx, c.Host, port)
	}
	for range 100 {
		port = lowestPort + rand.IntN(ephemeral-lowestPort) //nolint:gosec // no secret
		mark, err := reserve(port)
		if err != nil {
			continue // another stack's
		}
		c.reserved = append(c.reserved, mark)
		if bindable(ctx, c.Host, port) == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on %s among a hundred", c.Host)
}

// reserve locks the file that stands for a port on this machine, until it is closed.
func reserve(port int) (*os.File, error) {
	mark, err := os.OpenFile(filepath.Join(os.TempDir(), "slotwise-port-"+strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o666) //nolint:gosec // any user's stack
	if err != nil {
		return nil, fmt.Errorf("reserve port %d: %w", port, err)
	}
	if err := syscall.Flock(int(mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		mark.Close() //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("reserve port %d: %w", port, err)
	}
	return mark, nil
}

// unreserve gives the ports back.
func (c *Config) unreserve() {
	for _, mark := range c.reserved {
		os.Remove(mark.Name()) //nolint:errcheck // somebody else's to make again
		mark.Close()           //nolint:errcheck // nothing was written
	}
	c.reserved = nil
}

func bindable(ctx context.Context, host string, port int) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return err //nolint:wrapcheck // the caller says which setting
	}
	return l.Close() //nolint:wrapcheck // it was only a try
}
