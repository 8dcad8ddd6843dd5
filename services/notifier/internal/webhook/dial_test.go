package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/hooktest"
)

// nameServer answers every question of a name with the addresses that a function tells, on a real
// socket.
func nameServer(t *testing.T, answer func() []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(reply(query[:n], answer), from) // who asked may have gone
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close() // the test is over
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// reply answers a question for A (1) or AAAA (28) records (RFC 1035 §4).
func reply(query []byte, answer func() []netip.Addr) []byte {
	end := 12
	for end < len(query) && query[end] != 0 {
		end += int(query[end]) + 1
	}
	question := query[12:min(end+5, len(query))]
	kind := question[len(question)-3]
	var records []byte
	count := byte(0)
	for _, addr := range answer() {
		if addr.Is4() != (kind == 1) {
			continue
		}
		bytes := addr.AsSlice()
		records = append(records, 0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, byte(len(bytes)))
		records = append(records, bytes...)
		count++
	}
	head := []byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0}
	return append(append(head, question...), records...)
}

func addrs(texts ...string) []netip.Addr {
	all := make([]netip.Addr, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParseAddr(text)
	}
	return all
}

// B112: a name that was right when it was saved, and at the first try, leads elsewhere at the
// second: nothing is connected.
func TestB112NameThatFlips(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Steps, times.KeepAlive = []time.Duration{time.Hour, time.Hour}, time.Nanosecond
	s := newStage(t, times, hooktest.Options{Host: "hooks.example"})
	inside, err := net.Listen("tcp", "127.0.0.2:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	var private atomic.Bool
	s.resolver = nameServer(t, func() []netip.Addr {
		if private.Load() {
			return addrs("127.0.0.2")
		}
		return addrs("127.0.0.1")
	})
	s.settings.Rules.Allow = prefixes("127.0.0.1/32") // stands for what is public
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.start()
	s.await(s.plan("we_a"), "sent")
	private.Store(true)
	_, port, _ := net.SplitHostPort(inside.Addr().String())
	s.exec(`update notifier.endpoints set url = $1`, "http://hooks.example:"+port+"/")
	if err := CheckURL("http://hooks.example:"+port+"/", s.settings.Rules); err != nil {
		t.Errorf("the URL alone: %v", err)
	}
	key := s.plan("we_a")
	s.await(key, "planned: the host has an address that is not public")
	_ = inside.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond)) // a connection would stand in the queue
	if _, err := inside.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a private address was connected: %v", err)
	}
	if got := s.text(`select string_agg(answer, ' ') from notifier.hands`); strings.Contains(got, "127.0.0") {
		t.Errorf("an answer tells the address: %s", got)
	}
}

// Every address of a name must be allowed; a public one beside a private one does not help. What was
// resolved is what is dialled: there is no second question.
func TestEveryAddressOfAName(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for name, tt := range map[string]struct {
		answer []netip.Addr
		want   error
	}{
		"one":                   {addrs("127.0.0.1"), nil},
		"two":                   {addrs("127.0.0.3", "127.0.0.1"), nil}, // nobody listens at the first
		"one is private":        {addrs("127.0.0.1", "10.0.0.1"), errForbidden},
		"private first":         {addrs("169.254.169.254", "127.0.0.1"), errForbidden},
		"IPv6 beside":           {addrs("127.0.0.1", "fd00:ec2::254"), errForbidden},
		"mapped":                {addrs("::ffff:10.0.0.1"), errForbidden},
		"NAT64":                 {addrs("64:ff9b::a9fe:a9fe", "127.0.0.1"), errForbidden},
		"carrier-grade NAT":     {addrs("100.64.0.1"), errForbidden},
		"Oracle's metadata":     {addrs("192.0.0.192"), errForbidden},
		"no address that is it": {nil, &net.DNSError{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := atomic.Int64{}
			d := dialer{rules: Rules{Allow: prefixes("127.0.0.1/32", "127.0.0.3/32")}, each: time.Second}
			d.resolver = nameServer(t, func() []netip.Addr { asked.Add(1); return tt.answer })
			conn, err := d.dial(t.Context(), "tcp", "hooks.example.:"+port)
			if conn != nil {
				conn.Close()
			}
			_, noName := errors.AsType[*net.DNSError](err)
			if _, wantNoName := errors.AsType[*net.DNSError](tt.want); noName != wantNoName || !wantNoName && !errors.Is(err, tt.want) {
				t.Errorf("dial: %v, want %v", err, tt.want)
			}
			if n := asked.Load(); tt.answer != nil && n != 2 { // A and AAAA
				t.Errorf("%d questions", n)
			}
		})
	}
}

// B111 at dial time: a literal, and what the system's resolver makes of odd forms.
func TestB111DialsNothingPrivate(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	d := dialer{each: time.Second}
	for _, host := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::7f00:1", "fe80::1%lo", "0.0.0.0", "::", "localhost", "2130706433", "0x7f.1", "127.1", "017700000001"} {
		conn, err := d.dial(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err == nil {
			conn.Close()
			t.Errorf("%s was dialled", host)
		}
	}
	for _, address := range []string{"127.0.0.1:80", "[::1]:80", "[::ffff:10.0.0.1]:80", "[fe80::1%eth0]:80", "garbage", ""} {
		if err := d.control(t.Context(), "tcp", address, nil); !errors.Is(err, errForbidden) {
			t.Errorf("control of %s: %v", address, err)
		}
	}
	if err := d.control(t.Context(), "tcp", "8.8.8.8:443", nil); err != nil {
		t.Error(err)
	}
}

// https only, unless a setting allows http; judged at each try, so that a stricter setting holds for
// endpoints that are there.
func TestHTTPNeedsASetting(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.times.Steps = []time.Duration{time.Hour}
	s.settings.Rules.HTTP = false
	key := s.plan(s.endpoint("we_a", s.hooks.URL("/a")))
	s.start()
	s.await(key, "planned: the URL is not allowed: it must begin with https://")
	if n := s.hooks.Conns(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// proxyServer passes requests and CONNECTs on to one address, whatever they ask for.
func proxyServer(t *testing.T, to string) (proxy *url.URL, asked *atomic.Value) {
	t.Helper()
	asked = &atomic.Value{}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.RequestURI)
		out, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Close()
		if r.Method != http.MethodConnect {
			r.RequestURI = ""
			r.Close = true
			_ = r.Write(out) // the client may have gone
			in, _, _ := http.NewResponseController(w).Hijack()
			defer in.Close()
			_, _ = io.Copy(in, out) // until one side ends
			return
		}
		w.WriteHeader(http.StatusOK)
		in, _, _ := http.NewResponseController(w).Hijack()
		defer in.Close()
		go func() { _, _ = io.Copy(out, in); out.Close() }()
		_, _ = io.Copy(in, out) // until one side ends
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}, asked
}

// With a proxy it does the look-up: names are not judged here, literal addresses are. The proxy itself
// may be anywhere.
func TestProxy(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{TLS: true, Host: "hooks.example"})
	s.times.Steps = []time.Duration{time.Hour}
	proxy, asked := proxyServer(t, s.hooks.Addr())
	s.settings.Proxy, s.settings.Rules = proxy, Rules{}
	key := s.plan(s.endpoint("we_a", s.hooks.URL("/a")))
	private := s.plan(s.endpoint("we_b", "https://[::ffff:127.0.0.1]/"))
	s.start()
	s.await(key, "sent")
	s.await(private, "planned: the URL is not allowed: it must not name an address that is not public")
	if got := asked.Load(); got != "CONNECT "+strings.TrimPrefix(strings.TrimSuffix(s.hooks.URL("/a"), "/a"), "https://") {
		t.Errorf("the proxy was asked %v", got)
	}
}

// A proxy that is away or refuses us is our own trouble: no endpoint is charged.
func TestProxyAway(t *testing.T) {
	t.Parallel()
	refuses := hooktest.New(t, hooktest.Options{})
	refuses.Script(hooktest.Fault{Status: http.StatusProxyAuthRequired})
	for name, proxy := range map[string]string{"away": "127.0.0.1:1", "refuses": refuses.Addr()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, quick(), hooktest.Options{})
			s.settings.Proxy = &url.URL{Scheme: "http", Host: proxy}
			key := s.plan(s.endpoint("we_a", "https://hooks.example/a"))
			s.start()
			s.until("three tries", func() bool { return s.number(`select count(*) from notifier.hands where ended_at is not null`) >= 3 })
			if n := s.number(`select count(*) from notifier.endpoints where failing_since is not null`); n != 0 || s.number(`select attempts from notifier.send_log where key = $1`, key) != 0 {
				t.Error("it counts as the endpoint's failure")
			}
		})
	}
}

// A proxy in the environment is not for webhooks. The variables are read once a process, so
// the transport is asked.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	if c := newClient(Settings{Connections: 2}, DefaultTimes(), nil); c.transport.Proxy != nil {
		t.Error("there is a proxy function")
	}
}
