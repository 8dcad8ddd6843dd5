package web_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/web"
	"go.uber.org/zap/zaptest"
)

// A request that is in flight when the service is told to stop gets its answer.
func TestB141RunFinishesRequestsInFlight(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	addr := freeAddr(t)
	server := web.Server{
		Addr: addr, Setting: "HTTP_ADDR", Grace: 10 * time.Second, Watch: admin.New(), Log: zaptest.NewLogger(t),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(began)
			<-release
			io.WriteString(w, "done") //nolint:errcheck // the client's read tells
		}),
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()

	body := make(chan string, 1)
	go func() { body <- get(t, "http://"+addr) }()
	<-began
	stop()
	close(release)
	if got := <-body; got != "done" {
		t.Errorf("request in flight got %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// get asks until somebody listens.
func get(t *testing.T, url string) string {
	t.Helper()
	for {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Error(err)
			return ""
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			if t.Context().Err() != nil {
				return ""
			}
			continue
		}
		defer response.Body.Close()
		all, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		return string(all)
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
