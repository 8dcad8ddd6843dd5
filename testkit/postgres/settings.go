package postgres

import (
	"fmt"
	"maps"
	"net"
	"slices"
)

// settingArgs are the server's settings on its command line; none is written to the data folder.
func settingArgs(o Options) ([]string, error) {
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", o.Addr, err)
	}
	set := map[string]string{
		"listen_addresses": host, "port": port, "unix_socket_directories": "",
		"max_connections": "300", // test binaries run side by side
	}
	if !o.Durable {
		// Commits stay synchronous: a kill -9 of the server must lose nothing here either.
		maps.Copy(set, map[string]string{
			"fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0",
			"max_wal_size": "256MB",
		})
	}
	maps.Copy(set, o.Set)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "-c", name+"="+set[name])
	}
	return args, nil
}
