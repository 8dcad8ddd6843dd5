package send_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/testkit/seed"
)

// seedBooking is a booking whose customer has a mailbox at domain.
func seedBooking(domain string) seed.Booking {
	return seed.Booking{Resource: "room-7", Address: fmt.Sprintf("ada-%d@%s", time.Now().UnixNano(), domain)}
}

// chatter is a server that offers AUTH in clear, as an attacker in the middle would.
type chatter struct {
	mu    sync.Mutex
	lines []string
}

func (c *chatter) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		fmt.Fprint(conn, "220 hello\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			c.mu.Lock()
			c.lines = append(c.lines, lines.Text())
			c.mu.Unlock()
			switch verb, _, _ := strings.Cut(lines.Text(), " "); verb {
			case "EHLO":
				fmt.Fprint(conn, "250-hello\r\n250 AUTH PLAIN LOGIN\r\n")
			case "QUIT":
				fmt.Fprint(conn, "221 bye\r\n")
			default:
				fmt.Fprint(conn, "235 thank you\r\n")
			}
		}
		_ = conn.Close()
	}
}

// auth reports whether anybody tried to log in.
func (c *chatter) auth() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.HasPrefix(line, "AUTH") {
			return true
		}
	}
	return false
}
