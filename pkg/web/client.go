package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/pkg/config"
)

// Clients tells from which address a request comes. The zero value believes no proxy.
type Clients struct{ trusted []netip.Prefix }

// ReadClients reads TRUSTED_PROXIES.
func ReadClients(env *config.Reader) Clients {
	text := env.String("TRUSTED_PROXIES", "", "addresses and networks, such as 10.0.0.0/8, separated by commas, of the proxies whose X-Forwarded-For is believed; by default the connection's address counts")
	clients, err := Trust(text)
	if err != nil {
		env.Mistake("TRUSTED_PROXIES", "must be addresses or networks, such as 10.0.0.0/8,192.0.2.7, separated by commas")
	}
	return clients
}

// Trust returns the clients behind the proxies that text lists as TRUSTED_PROXIES does.
func Trust(text string) (Clients, error) {
	var c Clients
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		prefix, err := parsePrefix(word)
		if err != nil {
			return Clients{}, err
		}
		c.trusted = append(c.trusted, prefix)
	}
	return c, nil
}

func parsePrefix(word string) (netip.Prefix, error) {
	if !strings.Contains(word, "/") {
		addr, err := netip.ParseAddr(word)
		if err != nil {
			return netip.Prefix{}, err //nolint:wrapcheck // who reads the setting says what is wrong
		}
		addr = plain(addr)
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(word)
	if err != nil {
		return netip.Prefix{}, err //nolint:wrapcheck // the same
	}
	if mapped := prefix.Bits() - 96; prefix.Addr().Is4In6() && mapped >= 0 {
		prefix = netip.PrefixFrom(plain(prefix.Addr()), mapped)
	}
	return prefix.Masked(), nil
}

// Addr is the client's address: the connection's, unless that is a trusted proxy's. Then it is
// the last one in X-Forwarded-For that is not a trusted proxy's too: each proxy appends whom
// it was asked by, so that what stands further left may be anybody's invention. What can't be
// read ends the walk at the proxy that wrote it. The zero address means that nobody knows.
func (c Clients) Addr(r *http.Request) netip.Addr {
	client, known := parseHop(r.RemoteAddr)
	if !known || !c.trusts(client) {
		return client
	}
	for _, header := range slices.Backward(r.Header.Values("X-Forwarded-For")) {
		for rest, more := header, true; more; {
			var word string
			word, rest, more = cutLast(rest)
			hop, known := parseHop(word)
			if !known {
				return client
			}
			if client = hop; !c.trusts(hop) {
				return client
			}
		}
	}
	return client
}

func (c Clients) trusts(addr netip.Addr) bool {
	for _, prefix := range c.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// cutLast returns what stands behind the last comma, and what before it, if there is one.
func cutLast(list string) (word, rest string, more bool) {
	at := strings.LastIndexByte(list, ',')
	if at < 0 {
		return list, "", false
	}
	return list[at+1:], list[:at], true
}

// parseHop reads an address as RemoteAddr and X-Forwarded-For have it: with a port or without,
// IPv6 in brackets or bare.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if pair, err := netip.ParseAddrPort(text); err == nil {
		return plain(pair.Addr()), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(text)
	return plain(addr), err == nil
}

// plain makes one form of an address of two: IPv4 that is mapped into IPv6, and zones.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
