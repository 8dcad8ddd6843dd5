package relay

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/testkit/bustest"
)

// freezer dials connections whose writes stop, like those of a frozen process, once the first
// of them has sent so many bytes; no deadline ends them.
type freezer struct {
	after  int64
	frozen chan struct{} // closed when it has begun
	thaw   chan struct{} // close it to end it
	sent   atomic.Int64
}

type freezing struct {
	net.Conn
	*freezer
}

func (f *freezer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address) //nolint:noctx // nats.CustomDialer has none
	return freezing{conn, f}, err
}

func (f freezing) Write(b []byte) (int, error) {
	before := f.sent.Add(int64(len(b))) - int64(len(b))
	if before < f.after && before+int64(len(b)) >= f.after {
		close(f.frozen)
	}
	if before+int64(len(b)) >= f.after {
		<-f.thaw
	}
	return f.Conn.Write(b)
}

// A relay frozen in the middle of its claim loses the locks, another one publishes its rows
// and their successors, the dedupe window passes. Thawed, it must publish nothing more: its
// clock forbids it, and where that is fooled, its connection: nats-server has closed that,
// 600 ms after the freeze, which PostgreSQL ends the transaction of after 1 s.
func TestFrozenRelay(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]time.Duration{"clock": 500 * time.Millisecond, "connection": 8 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const bookings = 1000
			r := newRig(t, func(c *jetstream.StreamConfig) {
				c.AllowAtomicPublish = false
				c.Duplicates = 100 * time.Millisecond
			}, bustest.Change(func(o *server.Options) { o.PingInterval, o.MaxPingsOut = 200*time.Millisecond, 1 }))
			if _, err := r.db.Admin.Exec(t.Context(), `alter role slotwise_relay in database `+r.db.Name+` set idle_in_transaction_session_timeout = '1s'`); err != nil {
				t.Fatal(err)
			}
			r.fill(bookings)
			s := r.settings()
			s.Batch = bookings
			s.Times.Claim, s.Times.Answer = claim, 500*time.Millisecond
			f := &freezer{after: 40_000, frozen: make(chan struct{}), thaw: make(chan struct{})}
			first, _ := r.relay(s, f.dialOf(r))
			first.lanes[0].alone = true // nothing of an atomic batch would be stored before its end
			r.run(first, nil)
			<-f.frozen
			began := time.Now()

			second, _ := r.relay(r.settings(), nil)
			r.run(second, nil)
			var next []outbox.Event
			for n := range bookings {
				next = append(next, event(n+1, 2))
			}
			r.write(next...)
			r.eventuallyCount(publishedRows, 2*bookings)
			t.Logf("the frozen relay's rows were published %s later", time.Since(began).Round(10*time.Millisecond))
			before := len(r.stored())
			close(f.thaw)
			r.eventually("it works again", passes(first))
			r.write(event(1, 3))
			r.eventuallyCount(waitingRows, 0)
			stored := r.stored()
			if len(stored) != before+1 {
				t.Errorf("%d messages after the thaw", len(stored)-before-1)
			}
			r.inOrder(stored)
		})
	}
}

func (f *freezer) dialOf(r *rig) func() (*nats.Conn, error) {
	url, seed := r.bus.URL(), r.bus.SeedFile("relay")
	return func() (*nats.Conn, error) {
		nkey, err := nats.NkeyOptionFromSeed(seed)
		if err != nil {
			return nil, err
		}
		opts := []nats.Option{nkey, nats.CustomInboxPrefix("_INBOX_relay"), nats.NoReconnect(), nats.Name("frozen"), nats.SetCustomDialer(f)}
		select {
		case <-f.thaw:
			opts = opts[:len(opts)-1]
		default:
		}
		return nats.Connect(url, opts...)
	}
}
