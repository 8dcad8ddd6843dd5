package api

import (
	_ "embed"
	"net/http"

	"github.com/slotwise/slotwise/services/booking/internal/app"
)

//go:embed openapi.yaml
var openapi []byte

func contract(*http.Request) (app.Answer, error) {
	return app.Answer{
		Status: http.StatusOK,
		Header: map[string]string{"Content-Type": "application/yaml"}, // RFC 9512
		Body:   openapi,
	}, nil
}
