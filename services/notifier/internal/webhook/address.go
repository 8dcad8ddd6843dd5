package webhook

import (
	"net/netip"
	"slices"
)

// special are the IPv4 networks that are no public hosts: the IANA special-purpose registry (RFC 6890
// and what was added to it), multicast, and one metadata service on a public address.
var special = prefixes(
	"0.0.0.0/8",        // this host
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier-grade NAT
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // Azure's machine services
	"169.254.0.0/16",   // link-local, metadata services
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments, Oracle's metadata service
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
)

// Of IPv6 only global unicast is public, without these.
var (
	global   = netip.MustParsePrefix("2000::/3")
	special6 = prefixes(
		"2001::/23",     // protocol assignments: Teredo, benchmarks, ORCHID
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4, which holds any IPv4 address
		"3fff::/20",     // documentation
	)
	nat64 = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the last 32 bits are an IPv4 address
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// public reports whether a is an address of a public host, by what it leads to: an IPv4 address
// that is embedded in an IPv6 one counts as itself. Addresses with a zone are on a link of ours.
func public(a netip.Addr) bool {
	if a.Zone() != "" || !a.IsValid() {
		return false
	}
	a = a.Unmap()
	if a.Is4() {
		return !within(a, special)
	}
	b := a.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case nat64.Contains(a):
		return public(last)
	case !global.Contains(a) || within(a, special6):
		return false // the other forms that embed IPv4 (::a.b.c.d, ::ffff:0:a.b.c.d, 64:ff9b:1::) are not global
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, RFC 5214 §6.1
		return public(last)
	}
	return true
}

func within(a netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}
