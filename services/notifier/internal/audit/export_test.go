package audit

// The statements, for EXPLAIN.
var (
	BehindSQL = behindSQL
	MissedSQL = missedSQL
)
