package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/link"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// The settings LINK_KEYS and MAILS_PER_HOUR reach what they are for.
func TestLinksAndMails(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	apply(t, db)
	text := "7:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	keys, err := link.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	e := env{"DATABASE_URL": db.URL("slotwise_booking"), "LINK_KEYS": text, "MAILS_PER_HOUR": "2", "key": seed.Key(t, db.Admin, nil)}
	s := start(t, e)
	s.await(s.admin+"/readyz", http.StatusOK)
	for i, want := range []int{http.StatusCreated, http.StatusCreated, http.StatusTooManyRequests} {
		if status, _ := s.book(fmt.Sprintf("2040-01-%02dT10:00:00Z", i+1)); status != want {
			t.Errorf("booking %d: %d", i+1, status)
		}
	}
	var id, customer string
	if err := db.Admin.QueryRow(t.Context(), `select booking::text, customer::text from booking.contacts limit 1`).Scan(&id, &customer); err != nil {
		t.Fatal(err)
	}
	token, err := keys.Sign(link.For(id, customer, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	s.key = "" // a link needs none
	if status := s.status(s.api + "/b/" + token); status != http.StatusOK {
		t.Errorf("the link: %d", status)
	}
	s.end()

	delete(e, "LINK_KEYS")
	bare := start(t, e)
	bare.await(bare.admin+"/readyz", http.StatusOK)
	if status := bare.status(bare.api + "/b/" + token); status != http.StatusNotFound {
		t.Errorf("without LINK_KEYS: %d", status)
	}
	bare.end()
}

// B148: a key of links that is not understood is not shown.
func TestB148LinkKeysAreNotShown(t *testing.T) {
	t.Parallel()
	_, err := once(t, env{"DATABASE_URL": "postgres://h/d", "LINK_KEYS": "1:WnlYdy1VbmlxdWU="}, "")
	if err == nil || !strings.Contains(err.Error(), "LINK_KEYS has a key 1 of 11 bytes") || strings.Contains(err.Error(), "WnlY") {
		t.Errorf("mistakes: %v", err)
	}
}
