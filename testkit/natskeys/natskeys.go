// Package natskeys makes and reads the nkeys of the NATS users of deploy/nats/nats.conf: a
// folder with one seed file a user, <user>.nk, readable by its owner only. `make run` hands
// the public keys to nats-server and the files to the services; tests do the same in process.
package natskeys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"
)

// Users returns the users of nats.conf: four services, the topology and one operator.
func Users() []string {
	return []string{"booking", "relay", "notifier", "scheduler", "topology", "dev"}
}

// Set is the keys of some users in one folder.
type Set struct {
	dir    string
	users  []string
	public map[string]string
}

// Ensure reads the keys of users from dir and makes those that are missing, the folder too.
// A file that holds no user's seed is an error, never overwritten.
func Ensure(dir string, users ...string) (Set, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Set{}, fmt.Errorf("make the folder of nkeys: %w", err)
	}
	s := Set{dir: dir, users: users, public: map[string]string{}}
	for _, user := range users {
		public, err := publicKey(s.SeedFile(user))
		if errors.Is(err, os.ErrNotExist) {
			public, err = create(s.SeedFile(user))
		}
		if err != nil {
			return Set{}, fmt.Errorf("nkey of %s: %w", user, err)
		}
		s.public[user] = public
	}
	return s, nil
}

// SeedFile is the file with the user's seed: what NATS_NKEY_FILE names.
func (s Set) SeedFile(user string) string { return filepath.Join(s.dir, user+".nk") }

// Public is the user's public key; "" for a user that is not in the set.
func (s Set) Public(user string) string { return s.public[user] }

// Env returns the public keys as nats.conf wants them: NKEY_BOOKING=U…, one for each user.
func (s Set) Env() []string {
	env := make([]string, 0, len(s.users))
	for _, user := range s.users {
		env = append(env, Variable(user)+"="+s.public[user])
	}
	return env
}

// Variable is the name of the user's public key in nats.conf, such as NKEY_BOOKING.
func Variable(user string) string { return "NKEY_" + strings.ToUpper(user) }

func publicKey(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedNKey(content)
	if err != nil {
		return "", fmt.Errorf("%s holds no seed: %w", file, err)
	}
	public, err := pair.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("%s holds no seed of a user", file)
	}
	return public, nil
}

// create writes a new seed. It is renamed into place, so that there is never half a file.
func create(file string) (string, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", fmt.Errorf("make a seed: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return "", fmt.Errorf("make a seed: %w", err)
	}
	half := file + ".new"
	if err := os.WriteFile(half, append(seed, '\n'), 0o600); err != nil {
		return "", fmt.Errorf("write the seed: %w", err)
	}
	if err := os.Rename(half, file); err != nil {
		return "", fmt.Errorf("write the seed: %w", err)
	}
	return pair.PublicKey()
}
