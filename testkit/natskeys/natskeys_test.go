package natskeys_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/slotwise/slotwise/testkit/natskeys"
)

func TestEnsureKeepsWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	first, err := natskeys.Ensure(dir, "booking")
	if err != nil {
		t.Fatal(err)
	}
	all, err := natskeys.Ensure(dir, natskeys.Users()...)
	if err != nil {
		t.Fatal(err)
	}
	if all.Public("booking") != first.Public("booking") {
		t.Error("booking's key has changed")
	}
	var seen []string
	for _, line := range all.Env() {
		name, key, _ := strings.Cut(line, "=")
		if !nkeys.IsValidPublicUserKey(key) || slices.Contains(seen, key) {
			t.Errorf("%s is no key of its own", line)
		}
		if !strings.HasPrefix(name, "NKEY_") || name != strings.ToUpper(name) {
			t.Errorf("variable %s", name)
		}
		seen = append(seen, key)
	}
	if len(seen) != len(natskeys.Users()) {
		t.Errorf("%d keys for %d users", len(seen), len(natskeys.Users()))
	}
	info, err := os.Stat(all.SeedFile("relay"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the seed's mode is %v", info.Mode())
	}
}

func TestEnsureRefusesAnotherFile(t *testing.T) {
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := account.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"empty": "", "text": "hello", "an account's": string(seed)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "relay.nk")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := natskeys.Ensure(dir, "relay"); err == nil {
				t.Error("Ensure took it")
			}
			if kept, err := os.ReadFile(file); err != nil || string(kept) != content {
				t.Errorf("the file is now %q (%v)", kept, err)
			}
		})
	}
}
