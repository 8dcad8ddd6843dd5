package postgres

import (
	"context"
	"fmt"
)

func startDocker(ctx context.Context, o Options) (*Server, error) {
	return nil, fmt.Errorf("%w: later", errUnavailable)
}
