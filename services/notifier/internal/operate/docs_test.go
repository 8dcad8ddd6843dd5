package operate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/testkit/checkout"
)

// Every statement of the runbook works for the role that it names.
func TestRunbook(t *testing.T) {
	t.Parallel()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	f := open(t)
	f.booked()
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "select ") {
			n++
			if _, err := f.db.Pool("slotwise_notifier").Exec(t.Context(), line); err != nil {
				t.Errorf("%s%v", line, err)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d statements found", n)
	}
}
