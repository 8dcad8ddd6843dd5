// Package migrations holds the numbered SQL files of schema notifier, which `notifier migrate`
// applies and the server waits for.
package migrations

import "embed"

// Files are the migrations, in the root of the file system.
//
//go:embed *.sql
var Files embed.FS
