package webhook

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

var open = Rules{HTTP: true}

// B111: an address that is not public is refused when it is saved, in every form.
func TestB111LiteralAddresses(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "0.0.0.0", "0.1.2.3",
		"100.64.0.1", "100.127.255.255", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "192.88.99.1",
		"224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"2130706433", "017700000001", "0x7f000001", "0x7F000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0x0.0x0.0x1", "127.0.0.0x1", "1", "0x", "127.0.0.1.", "2852039166",
		"[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:a9fe:a9fe]", "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]",
		"[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]", "[64:ff9b::a00:1]", "[64:ff9b:1::1]", "[64:ff9b:1::808:808]",
		"[fe80::1]", "[fe80::1%25eth0]", "[2606:4700::1111%25eth0]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[100::1]", "[5f00::1]",
		"[2001::1]", "[2001:0:7f00:1::]", "[2001:2::1]", "[2001:10::1]", "[2001:db8::1]", "[2002:7f00:1::]", "[2002:808:808::1]", "[3fff::1]",
		"[2606:4700::5efe:127.0.0.1]", "[2606:4700::200:5efe:10.0.0.1]",
		"%31%32%37.0.0.1", "１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "[::1", "[127.0.0.1]", "[v1.a]", "a..b", "-.%00", "a b", "a_b.0x1f",
	} {
		if err := CheckURL("http://"+host+"/hook", open); !errors.Is(err, ErrURL) {
			t.Errorf("%s: %v, want ErrURL", host, err)
		}
		if err := CheckURL("http://"+host+":8080", open); !errors.Is(err, ErrURL) {
			t.Errorf("%s with a port: %v, want ErrURL", host, err)
		}
	}
	for _, host := range []string{
		"8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1", "198.20.0.1", "223.255.255.255",
		"[2606:4700:4700::1111]", "[2a00:1450::1]", "[::ffff:8.8.8.8]", "[64:ff9b::808:808]", "[2606:4700::5efe:8.8.8.8]",
		"hooks.example.org", "hooks.example.org.", "a_b.example", "xn--bcher-kva.example", "1.example", "0x7f.example", "localhost",
	} {
		if err := CheckURL("https://"+host+"/hook", Rules{}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for raw, reason := range map[string]string{
		"":                        "empty",
		"http://a.example/":       "https://",
		"ftp://a.example/":        "https://",
		"//a.example/":            "https://",
		"a.example":               "https://",
		"file:///etc/passwd":      "https://",
		"https:a.example":         "no host",
		"https:///x":              "no host",
		"https://:443/x":          "no host",
		"https://u@a.example":     "user",
		"https://u:p@a.example":   "user",
		"https://a.example/#x":    "fragment",
		"https://a.example/#":     "fragment",
		"https://a.example:0/":    "port",
		"https://a.example:/":     "port",
		"https://a.example:99999": "port",
		"https://a.example:x":     "can't be read",
		"https://a.example/ x":    "ASCII",
		"https://a.example\\@b":   "ASCII",
		"https://bücher.example":  "ASCII",
		"https://a.example\r\nx":  "ASCII",
		"https://" + strings.Repeat("a", 64) + ".example":  "overlong",
		"https://" + strings.Repeat("a.", 130) + "example": "too long",
		"https://a.example/" + strings.Repeat("a", 2048):   "longer",
	} {
		err := CheckURL(raw, Rules{})
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, want %q", raw, err, reason)
		}
	}
	for _, raw := range []string{"https://a.example", "https://a.example:8443/x?token=1&y", "HTTPS://A.EXAMPLE/%20"} {
		if err := CheckURL(raw, Rules{}); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestAllowedNetworks(t *testing.T) {
	t.Parallel()
	rules := Rules{HTTP: true, Allow: prefixes("10.1.0.0/16", "::1/128")}
	for host, want := range map[string]bool{"10.1.2.3": true, "[::ffff:10.1.2.3]": true, "[::1]": true, "10.2.0.1": false, "127.0.0.1": false, "[64:ff9b::a01:203]": false} {
		if err := CheckURL("http://"+host+"/", rules); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// Whatever is let through has a host that the standard library reads as we do: a name that no
// resolver takes for an address, or a public address.
func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{"https://a.example/x", "http://127.0.0.1", "https://[::ffff:7f00:1]:1/", "https://0x7f.1", "https://a@b", "https://%31.1", "https://[fe80::1%25a]/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		err := CheckURL(raw, Rules{})
		if err != nil {
			if !errors.Is(err, ErrURL) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.User != nil {
			t.Fatalf("%q: %v, %v", raw, u, err)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			if !public(addr) {
				t.Fatalf("%q: %v is not public", raw, addr)
			}
			return
		}
		name := strings.TrimSuffix(u.Hostname(), ".")
		if last := name[strings.LastIndex(name, ".")+1:]; last == "" || last[0] >= '0' && last[0] <= '9' && number(last) {
			t.Fatalf("%q ends in a number", raw)
		}
	})
}

// Each forbidden network is forbidden from its first to its last address.
func TestEdgesOfNetworks(t *testing.T) {
	t.Parallel()
	for _, p := range append(append([]netip.Prefix{}, special...), special6...) {
		first := p.Masked().Addr()
		last := first.AsSlice()
		for i := p.Bits(); i < first.BitLen(); i++ {
			last[i/8] |= 1 << (7 - i%8)
		}
		end, _ := netip.AddrFromSlice(last)
		if public(first) || public(end) || public(netip.AddrFrom16(first.As16())) {
			t.Errorf("%s is public in part", p)
		}
	}
	for _, a := range []string{"9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2001:200::", "2003::", "3ffe::"} {
		if !public(netip.MustParseAddr(a)) {
			t.Errorf("%s is not public", a)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address is public")
	}
}
