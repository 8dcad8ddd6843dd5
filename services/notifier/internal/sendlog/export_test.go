package sendlog

import "strings"

// Statements are those that meet the whole log, with the types of their parameters.
var Statements = map[string]struct {
	SQL   string
	Types []string
}{
	"take":    {takeSQL, []string{"uuid", "bigint", "bigint", "interval", "interval"}},
	"read":    {readSQL, []string{"uuid", "interval", "interval"}},
	"write":   {writeSQL, []string{"text[]", "uuid[]", "text[]", "text[]", "interval[]", "interval[]", "integer", "interval", "integer", "interval", "text[]"}},
	"late":    {lateSQL, []string{"text[]", "uuid[]", "text[]"}},
	"put off": {putOffSQL, []string{"text[]"}},
	"sweep":   {sweepSQL, []string{"interval", "integer"}},
	"renew":   {renewSQL, []string{"text[]", "uuid[]", "interval", "interval"}},
	"next":    {nextSQL, nil},
	"gauge":   {gaugeSQL, []string{"interval", "interval"}},
}

// ForSession are what they are planned with, for the whole session.
var ForSession = strings.ReplaceAll(Settings, "true", "false")
