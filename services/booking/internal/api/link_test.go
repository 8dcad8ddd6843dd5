package api_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/slotwise/slotwise/pkg/link"
)

func testKeys(t *testing.T) link.Keys {
	t.Helper()
	keys, err := link.ParseKeys("1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
