// Command inbox is the mailbox of `make run`: an SMTP server that takes everything, and a page
// to read it on. See package testkit/inbox; --help lists the settings.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/emersion/go-smtp"
	"golang.org/x/sync/errgroup"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/testkit/ca"
	"github.com/slotwise/slotwise/testkit/inbox"
)

// grace is how long mails and requests in hand may take after SIGTERM.
const grace = 3 * time.Second

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "inbox:", err)
		os.Exit(1)
	}
}

// settings of the inbox; an empty file name means none.
type settings struct {
	smtp, http, dir, cert, key, caFile string
	keep                               int
}

// run is main without the process.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	env := config.New("inbox", getenv)
	s := settings{
		smtp:   env.String("INBOX_SMTP_ADDR", "127.0.0.1:1025", "address of the SMTP server"),
		http:   env.String("INBOX_HTTP_ADDR", "127.0.0.1:8025", "address of the page and of Mailpit's API"),
		dir:    env.String("INBOX_DIR", "inbox", "folder that keeps the mails"),
		keep:   env.Int("INBOX_KEEP", 10_000, 1, 1_000_000, "how many mails are kept; the oldest go"),
		cert:   env.String("INBOX_TLS_CERT", "", "file with a certificate for STARTTLS; default: one made here"),
		key:    env.String("INBOX_TLS_KEY", "", "file with its key"),
		caFile: env.String("INBOX_CA_FILE", "", "file that gets the authority of the certificate made here"),
	}
	if env.Answer(args, out) {
		return nil
	}
	if (s.cert == "") != (s.key == "") {
		env.Mistake("INBOX_TLS_KEY", "and INBOX_TLS_CERT go together")
	}
	if err := env.Err(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return s.serve(ctx, out)
}

// serve listens until ctx ends.
func (s settings) serve(ctx context.Context, out io.Writer) error {
	cert, err := s.certificate()
	if err != nil {
		return err
	}
	store, err := inbox.Open(s.dir, s.keep)
	if err != nil {
		return err
	}
	mails, err := listen(ctx, s.smtp, "INBOX_SMTP_ADDR")
	if err != nil {
		return err
	}
	defer mails.Close()
	page, err := listen(ctx, s.http, "INBOX_HTTP_ADDR")
	if err != nil {
		return err
	}
	defer page.Close()
	fmt.Fprintf(out, "mails on %s, page on http://%s\n", mails.Addr(), page.Addr())

	server := inbox.NewSMTP(store, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, out)
	web := &http.Server{Handler: inbox.NewHandler(store), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Serve(mails) })
	g.Go(func() error { return web.Serve(page) })
	g.Go(func() error { <-ctx.Done(); return shutdown(server, web) })
	if err := g.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shutdown lets what is in hand finish within the grace, then cuts it off.
func shutdown(server *smtp.Server, web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if web.Shutdown(ctx) != nil {
		_ = web.Close() // what is left is cut off
	}
	_ = server.Close() // a kept connection would never end by itself
	return nil
}

// certificate is the given one, or one that an authority in the folder signs.
func (s settings) certificate() (tls.Certificate, error) {
	if s.cert != "" {
		cert, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("read INBOX_TLS_CERT and INBOX_TLS_KEY: %w", err)
		}
		return cert, nil
	}
	authority, err := ca.Ensure(filepath.Join(s.dir, "tls"))
	if err != nil {
		return tls.Certificate{}, err
	}
	if s.caFile != "" {
		if err := os.WriteFile(s.caFile, authority.PEM(), 0o644); err != nil { //nolint:gosec // a certificate is public
			return tls.Certificate{}, fmt.Errorf("write INBOX_CA_FILE: %w", err)
		}
	}
	hosts := []string{"localhost", "127.0.0.1", "::1", "inbox"}
	if host, _, err := net.SplitHostPort(s.smtp); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	return authority.Issue(hosts...)
}

func listen(ctx context.Context, addr, setting string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen (%s moves it): %w", setting, err)
	}
	return l, nil
}
