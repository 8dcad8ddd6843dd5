// Package migrations holds the migrations of schema booking, in order. They are not internal,
// so that test databases can be made from this folder.
package migrations

import "embed"

// Files are the migrations, NNNN_name.sql.
//
//go:embed *.sql
var Files embed.FS
