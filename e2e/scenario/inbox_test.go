package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/mail"
	"slices"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
)

// letters reads the mails to address in the inbox, the oldest first, by Mailpit's API; an
// empty address means all.
func letters(ctx context.Context, in *install.Installation, address string) ([]*mail.Message, error) {
	var page struct {
		Messages []struct {
			ID string
			To []struct{ Address string }
		} `json:"messages"`
	}
	body, err := get(ctx, in.InboxURL()+"/api/v1/messages?limit=10000")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("decode inbox: %w", err)
	}
	slices.Reverse(page.Messages)
	var mine []*mail.Message
	for _, m := range page.Messages {
		if address != "" && m.To[0].Address != address {
			continue
		}
		raw, err := get(ctx, in.InboxURL()+"/api/v1/message/"+m.ID+"/raw")
		if err != nil {
			return nil, err
		}
		letter, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("read mail: %w", err)
		}
		mine = append(mine, letter)
	}
	return mine, nil
}

// await returns the mails to address once there are n of them.
func await(in *install.Installation, address string, n int, within time.Duration) (mine []*mail.Message) {
	in.T.Helper()
	in.Eventually(within, fmt.Sprintf("%d mails to %s", n, address), func(ctx context.Context) (err error) {
		mine, err = letters(ctx, in, address)
		if err == nil && len(mine) < n {
			err = fmt.Errorf("%d so far", len(mine))
		}
		return err
	})
	return mine
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d", url, response.StatusCode)
	}
	return body, nil
}
