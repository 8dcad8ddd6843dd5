module github.com/slotwise/slotwise/services/notifier

go 1.26.0

require github.com/slotwise/slotwise/pkg v0.0.0

replace github.com/slotwise/slotwise/pkg => ../../pkg

require (
	github.com/jackc/pgx/v5 v5.12.0
	github.com/wneessen/go-mail v0.8.1
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/slotwise/slotwise/testkit => ../../testkit
