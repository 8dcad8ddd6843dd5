package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// errForbidden says that a connection would lead where none may be made. The address is not in
// it: who owns an endpoint must not learn from its deliveries what our resolver answers.
var errForbidden = errors.New("the host has an address that is not public")

// maxAddresses is how many addresses of one name are tried.
const maxAddresses = 4

// dialer connects to hosts of endpoints. A name is resolved once, all of its addresses are
// judged, and those addresses are dialled: there is no second look-up that could be answered
// otherwise. What is really dialled is judged again, right before.
type dialer struct {
	rules    Rules
	resolver *net.Resolver // nil: the system's
	each     time.Duration // for one address
}

func (d dialer) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if !d.rules.allow(addr) {
			return nil, errForbidden
		}
	}
	dial := net.Dialer{Timeout: d.each, ControlContext: d.control}
	var failed error
	for _, addr := range addrs[:min(len(addrs), maxAddresses)] {
		conn, err := dial.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// resolve returns at least one address.
func (d dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	resolver := d.resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	addrs, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// control judges the address of a socket right before it is connected.
func (d dialer) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !d.rules.allow(at.Addr()) {
		return errForbidden
	}
	return nil
}
