package inbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// messages is Mailpit's answer to GET /api/v1/messages.
type messages struct {
	Total          int       `json:"total"`
	Unread         int       `json:"unread"`
	Count          int       `json:"count"`
	MessagesCount  int       `json:"messages_count"`
	MessagesUnread int       `json:"messages_unread"`
	Start          int       `json:"start"`
	Tags           []string  `json:"tags"`
	Messages       []Summary `json:"messages"`
}

// pageSize is Mailpit's default limit.
const pageSize = 50

func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	start, limit := number(r, "start", 0), number(r, "limit", pageSize)
	page, total, unread := h.store.List(start, limit)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(messages{ // the client has gone; nobody to tell
		Total: total, Unread: unread, Count: len(page), MessagesCount: total, MessagesUnread: unread,
		Start: start, Tags: []string{}, Messages: page,
	})
}

// number reads a number >= 0 from the query.
func number(r *http.Request, name string, fallback int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 0 {
		return fallback
	}
	return n
}

func (h *handler) raw(w http.ResponseWriter, r *http.Request) {
	raw, ok := h.find(w, r)
	if ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(raw) // the client has gone; nobody to tell
	}
}

func (h *handler) clear(w http.ResponseWriter, r *http.Request) {
	if err := h.store.Clear(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if r.Method == http.MethodPost { // the page's button
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte("ok"))
}

// find returns the mail that the path names; else it has answered.
func (h *handler) find(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	raw, err := h.store.Raw(r.PathValue("id"))
	switch {
	case errors.Is(err, ErrNotFound):
		http.Error(w, "no such mail", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	return raw, err == nil
}
