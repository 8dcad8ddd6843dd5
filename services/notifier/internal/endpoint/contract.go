package endpoint

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var openapi []byte

func contract(w http.ResponseWriter, _ *http.Request) (status int) {
	w.Header().Set("Content-Type", "application/yaml") // RFC 9512
	w.Write(openapi)                                   //nolint:errcheck // the client has gone; nobody to tell
	return http.StatusOK
}
