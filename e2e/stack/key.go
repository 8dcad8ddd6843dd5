package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/pkg/apikey"
)

// KeyFile is the file in the data folder that holds [Stack.APIKey].
const KeyFile = "api-key"

// APIKey is an admin's key of this installation; empty with [Config.NoKey].
func (s *Stack) APIKey() string { return s.key }

// ensureKey makes the key as an operator does, unless the data folder has one that works.
func (s *Stack) ensureKey(ctx context.Context) error {
	if s.config.NoKey {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	file := filepath.Join(s.config.Dir, KeyFile)
	text, err := os.ReadFile(file) //nolint:gosec // in the data folder
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the API key: %w", err)
	}
	s.key = strings.TrimSpace(string(text))
	if works, err := s.keyWorks(ctx); err != nil || works {
		return err
	}
	if s.key, err = s.makeKey(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(s.key+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the API key: %w", err)
	}
	return nil
}

// keyWorks looks into the database, which may be another one than the data folder's.
func (s *Stack) keyWorks(ctx context.Context) (works bool, err error) {
	hash, err := apikey.Parse(s.key)
	if err != nil {
		return false, nil // there is none yet
	}
	conn, err := pgx.Connect(ctx, s.db.admin.String())
	if err != nil {
		return false, fmt.Errorf("connect as administrator: %w", err)
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `
		select exists (select from booking.api_keys where hash = $1 and revoked_at is null and scopes @> array['admin'])`, hash[:]).Scan(&works)
	if err != nil {
		return false, fmt.Errorf("look for the API key: %w", err)
	}
	return works, nil
}

var keyLine = regexp.MustCompile(`(?m)^key +(\S+)$`)

func (s *Stack) makeKey(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.config.Bin, "booking"), "keys", "create", "--name", "this stack", "--scopes", "admin") //nolint:gosec // our own
	cmd.Env = append(plainEnv(), "DATABASE_URL="+s.db.url("slotwise_booking"))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("make an API key: %w\n%s", err, &said)
	}
	line := keyLine.FindSubmatch(out)
	if line == nil {
		return "", errors.New("make an API key: none was printed")
	}
	return string(line[1]), nil
}
