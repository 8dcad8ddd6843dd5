package pooler

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// usersFile has the names and passwords of those who may log in.
const usersFile = "users"

// settings are those of package pooler's comment. One server for each user and database would
// hide what must not be kept in a session; ten are enough for a test that holds transactions
// open. A server that was away is tried again soon: by default after 15 s.
const settings = `[databases]
* = host=%s port=%s

[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = 10
server_round_robin = 1
max_client_conn = 1000
server_login_retry = 1
server_tls_sslmode = prefer
log_connections = 0
log_disconnections = 0
`

// writeConfig writes PgBouncer's two files to dir and returns the path of the first.
func writeConfig(dir, addr string, urls []string) (string, error) {
	var users bytes.Buffer
	var host, port string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.User == nil {
			return "", errors.New("the pooler needs URLs with a user (not shown, they may hold a password)")
		}
		password, _ := u.User.Password()
		fmt.Fprintf(&users, "%s %s\n", quote(u.User.Username()), quote(password))
		host, port = u.Hostname(), u.Port()
	}
	ownHost, ownPort, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", addr, err)
	}
	names := filepath.Join(dir, usersFile)
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(settings, host, port, ownHost, ownPort, names)
	for path, content := range map[string][]byte{names: users.Bytes(), config: []byte(text)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", fmt.Errorf("write the pooler's settings: %w", err)
		}
	}
	return config, nil
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// tailOf returns the end of a log, for an error message.
func tailOf(log *os.File) string {
	content := make([]byte, 4000)
	end, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	n, err := log.ReadAt(content, max(0, end-int64(len(content))))
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return strings.TrimSpace(string(content[:n]))
}
