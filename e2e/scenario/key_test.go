package scenario

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// The first start makes an API key, which the data folder keeps from other people; the next
// start uses it again, unless its database does not know it.
func TestTheAPIKeyIsKept(t *testing.T) {
	t.Parallel()
	in := install.Start(t)
	file := filepath.Join(in.Dir, stack.KeyFile)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != in.APIKey()+"\n" {
		t.Errorf("%s: %v", file, err)
	}
	body := install.Seat("hall", "ada@customers.example", install.InDays(3))
	for key, want := range map[string]int{in.APIKey(): http.StatusCreated, "": http.StatusUnauthorized, "slw_x": http.StatusUnauthorized} {
		in.Key = key
		if a, err := in.Post(t.Context(), install.Request{Body: body}); err != nil || a.Status != want {
			t.Errorf("with %q: %+v, %v", key, a, err)
		}
	}

	again := func(db *dbtest.DB) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := in.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		dir := in.Dir
		in = install.Start(t, func(c *stack.Config) { c.Dir, c.DatabaseURL, c.Password = dir, db.URL(""), dbtest.Password })
		return in.APIKey()
	}
	first, db := in.APIKey(), in.DB
	if key := again(db); key != first {
		t.Error("another start makes another key")
	}
	if key := again(dbtest.New(t)); key == first {
		t.Error("a key that the database does not know is used again")
	}
}
