package suppress_test

import (
	"testing"

	"github.com/slotwise/slotwise/services/notifier/internal/suppress"
)

func TestReply(t *testing.T) {
	for words, want := range map[string]bool{
		"550 5.1.1 no such user":                          true,
		"550 5.1.1":                                       true,
		"551 5.1.6 moved, and left no address":            true,
		"553 5.1.1 unknown":                               true,
		"550 5.1.10 RESOLVER.ADR.RecipientNotFound":       true,
		"550-5.1.1 The email account that you tried":      true,
		"550 5.1.1\tunknown":                              true,
		"550 5.1.2 domain not found":                      false,
		"550 5.1.3 bad syntax":                            false,
		"550 5.1.100 what is that":                        false,
		"550 5.1.1.1 no code":                             false,
		"550 5.2.1 mailbox disabled":                      false,
		"550 5.7.1 relaying denied: see 550 5.1.1 x":      false,
		"550 no such user (5.1.1)":                        false,
		"550 no such user":                                false,
		"554 5.1.1 no":                                    false,
		"450 4.1.1 no such user yet":                      false,
		"450 5.1.1 a server that contradicts itself":      false,
		"no answer in the phase RCPT: 550 5.1.1 anything": false,
		"": false,
	} {
		if got := suppress.Reply(words); got != want {
			t.Errorf("Reply(%q) = %t", words, got)
		}
	}
}
