package inbox

import (
	_ "embed"
	"html/template"
	"net/http"

	"github.com/slotwise/slotwise/testkit/letter"
)

//go:embed page.html
var pageHTML string

var pages = template.Must(template.New("page").Parse(pageHTML))

type handler struct{ store *Store }

// NewHandler returns the page and Mailpit's API over a store.
func NewHandler(store *Store) http.Handler {
	h := &handler{store: store}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.index)
	mux.HandleFunc("GET /message/{id}", h.message)
	mux.HandleFunc("GET /message/{id}/html", h.html)
	mux.HandleFunc("POST /clear", h.clear)
	mux.HandleFunc("GET /api/v1/messages", h.list)
	mux.HandleFunc("DELETE /api/v1/messages", h.clear)
	mux.HandleFunc("GET /api/v1/message/{id}/raw", h.raw)
	// No page elsewhere may clear the inbox through the reader's browser.
	return http.NewCrossOriginProtection().Handler(secure(mux))
}

// secure sets the headers of every answer: what a mail brings must not run here.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; form-action 'self'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

func (h *handler) index(w http.ResponseWriter, r *http.Request) {
	start := number(r, "start", 0)
	page, total, unread := h.store.List(start, pageSize)
	show(w, "index", map[string]any{
		"Messages": page, "Total": total, "Unread": unread,
		"Newer": max(0, start-pageSize), "Older": start + pageSize, "Start": start,
	})
}

func (h *handler) message(w http.ResponseWriter, r *http.Request) {
	raw, ok := h.find(w, r)
	if !ok {
		return
	}
	id := r.PathValue("id")
	h.store.MarkRead(id)
	l, err := letter.Parse(raw)
	show(w, "message", map[string]any{"ID": id, "Letter": l, "Error": err, "From": Address{l.From.Name, l.From.Address}, "To": addresses(l.To)})
}

// The mail's own page can do nothing but open its links, each in a tab of its own: the pages
// behind them refuse frames, and work there as they do for a customer.
const (
	mailPolicy = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
	ownTab     = `<!doctype html><base target="_blank">`
)

// html is the mail's own page, for the frame. The header keeps it harmless when it is opened
// by itself as well.
func (h *handler) html(w http.ResponseWriter, r *http.Request) {
	raw, ok := h.find(w, r)
	if !ok {
		return
	}
	l, _ := letter.Parse(raw) // no HTML part when it can't be read
	w.Header().Set("Content-Security-Policy", mailPolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(ownTab + l.HTML)) // the client has gone; nobody to tell
}

func show(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = pages.ExecuteTemplate(w, name, data) // the client has gone; nobody to tell
}
