package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// classes are those of PostgreSQL's errors (Appendix A of its manual) by which it says that it
// can't work now: connection, resources (disk full, memory, connections), an operator or a
// shutdown, the system around it. Codes are single errors of the same kind: a lock or a
// deadlock that lasted, a transaction that was idle too long, a standby that takes no writes.
var (
	classes = []string{"08", "53", "57", "58"}
	codes   = []string{"55P03", "40P01", "40001", "25P03", "25006"}
)

// classify marks errors that say nothing about the request as [app.ErrAway]. Whatever is not
// PostgreSQL's own answer is of the way there.
func classify(err error) error {
	var scan pgx.ScanArgError
	pgErr, answered := errors.AsType[*pgconn.PgError](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, tooMany := errors.AsType[*app.TooManyMailsError](err)
	switch {
	case err == nil, booking.Refused(err), tooMany, errors.Is(err, app.ErrKeyRunning), errors.Is(err, app.ErrKeyReused):
		return err
	case connecting, !answered && !errors.As(err, &scan), answered && cannotNow(pgErr.Code):
		return fmt.Errorf("%w: %w", app.ErrAway, err)
	}
	return err
}

func cannotNow(code string) bool {
	inClass := func(class string) bool { return strings.HasPrefix(code, class) }
	return slices.ContainsFunc(classes, inClass) || slices.Contains(codes, code)
}
