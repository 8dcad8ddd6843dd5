package endpoint

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var openapi []byte

func (a *api) contract(w http.ResponseWriter, r *http.Request) {
	if refused := a.doors.Throttle.Check(r); refused != nil {
		refused.Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/yaml") // RFC 9512
	w.Write(openapi)                                   //nolint:errcheck // the client has gone; nobody to tell
}
