package mailtest_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"os"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/mailtest"
)

// client speaks the protocol line by line.
type client struct {
	t    *testing.T
	conn net.Conn
	text *textproto.Reader
}

func dial(t *testing.T, server *mailtest.Server) *client {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr()) //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn, text: textproto.NewReader(bufio.NewReader(conn))}
}

// say sends a line, unless it is empty, and returns the last line of the answer.
func (c *client) say(line string) string {
	c.t.Helper()
	if line != "" {
		if _, err := fmt.Fprint(c.conn, line+"\r\n"); err != nil {
			return "dead"
		}
	}
	return c.hear()
}

// patience is how long a silent server is listened to.
const patience = 300 * time.Millisecond

func (c *client) hear() string {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	for {
		line, err := c.text.ReadLine()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "mute"
		case err != nil:
			return "dead"
		case len(line) < 4 || line[3] != '-':
			return line
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
