package endpoint_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/services/notifier/internal/endpoint"
	"github.com/slotwise/slotwise/testkit/contract"
	"go.uber.org/zap"
)

func readContract(t *testing.T) contract.Document {
	t.Helper()
	r := open(t).do(http.MethodGet, "/openapi.yaml", "")
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/yaml" {
		t.Fatalf("%d %v", r.status, r.header)
	}
	return contract.Read(t, r.body)
}

// The contract's routes are the router's.
func TestContractHasEveryRoute(t *testing.T) {
	t.Parallel()
	var want []string
	router := endpoint.NewAPI(nil, endpoint.Doors{}, zap.NewNop(), prometheus.NewRegistry()).(chi.Routes)
	err := chi.Walk(router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		want = append(want, method+" "+route)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if got := readContract(t).Routes(); !slices.Equal(got, want) {
		t.Errorf("openapi.yaml has %v\nthe router has   %v", got, want)
	}
}
