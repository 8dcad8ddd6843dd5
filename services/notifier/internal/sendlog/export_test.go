package sendlog

import "strings"

// Statements are those that meet the whole log, with the types of their parameters.
var Statements = map[string]struct{ Types, SQL string }{
	"take":    {"uuid, bigint, bigint, interval, interval", takeSQL},
	"read":    {"uuid, interval, interval", readSQL},
	"write":   {"text[], uuid[], text[], text[], interval[], interval[], integer, interval, integer, interval", writeSQL},
	"late":    {"text[], uuid[], text[]", lateSQL},
	"put off": {"text[]", putOffSQL},
	"sweep":   {"interval, integer", sweepSQL},
	"renew":   {"text[], uuid[], interval, interval", renewSQL},
	"next":    {"", nextSQL},
	"gauge":   {"interval, interval", gaugeSQL},
}

// Settings are what they are planned with, for the whole session.
var Settings = strings.ReplaceAll(settings, "true", "false")
