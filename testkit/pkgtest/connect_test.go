package pkgtest

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/proxy"
)

// settings are user's, for the server at addr.
func settings(t *testing.T, server *bustest.Server, addr, user string) bus.Settings {
	t.Helper()
	return bus.Settings{User: user, Servers: []*url.URL{{Scheme: "nats", Host: addr}}, SeedFile: server.SeedFile(user)}
}

// Connect needs no server to start, says one line a try, and publishes nothing it can't send.
func TestConnectWaits(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	way := proxy.New(t, server.URL())
	way.Refuse()
	core, lines := observer.New(zap.InfoLevel)
	nc, err := bus.Connect(settings(t, server, way.Addr(), "booking"), zap.New(core), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	eventually(t, "two tries", func() bool { return lines.FilterMessage("nats is not reachable").Len() >= 2 })
	if err := nc.Publish(topology.Doorbell, nil); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("publish while it is away: %v", err)
	}
	way.Accept()
	eventually(t, "connected", nc.IsConnected)
}

func TestDialFailsAtOnce(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	way := proxy.New(t, server.URL())
	way.Refuse()
	if nc, err := bus.Dial(settings(t, server, way.Addr(), "relay"), zaptest.NewLogger(t)); err == nil {
		nc.Close()
		t.Error("connected to nothing")
	}
}

// A denied permission is told: the call itself only times out.
func TestDeniedPermissionIsLogged(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	core, lines := observer.New(zap.WarnLevel)
	nc, err := bus.Dial(settings(t, server, server.Addr(), "booking"), zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish("booking.v1.confirmed.room-7.x", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a line", func() bool { return lines.FilterMessage("nats reports an error").Len() == 1 })
}

// Rings before the listener looks are one; a ring from a frozen server's side blocks nobody.
func TestBell(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	way := proxy.New(t, server.URL())
	nc, err := bus.Connect(settings(t, server, way.Addr(), "booking"), zaptest.NewLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	rung, deaf, err := bus.Listen(server.Connect("relay"), topology.Doorbell)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf()
	bell := bus.NewBell(nc, topology.Doorbell)
	background(t, bell.Run)
	eventually(t, "connected", nc.IsConnected)
	eventually(t, "a ring", func() bool {
		bell.Ring()
		select {
		case <-rung:
			return true
		default:
			return false
		}
	})
	way.Hold(proxy.ToServer)
	began := time.Now()
	for range 10_000 {
		bell.Ring()
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("10 000 rings towards a frozen server took %s", took)
	}
	way.Resume()
	eventually(t, "a ring that waited", func() bool {
		bell.Ring()
		select {
		case <-rung:
			return true
		default:
			return false
		}
	})
}
