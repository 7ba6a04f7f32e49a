package fault

import "fmt"

// LimitError reports a size over its limit.
type LimitError struct {
	What  string // what was measured
	Size  int64  // in Unit
	Limit int64  // in Unit
	Unit  string // "" stands for bytes
	Kind  error  // the sentinel that it matches
}

// Error implements error.
func (e *LimitError) Error() string {
	unit := e.Unit
	if unit == "" {
		unit = "bytes"
	}
	return fmt.Sprintf("%s: %v: %d %s, limit %d", e.What, e.Kind, e.Size, unit, e.Limit)
}

// Unwrap returns the sentinel.
func (e *LimitError) Unwrap() error { return e.Kind }
