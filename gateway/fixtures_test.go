package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/sql/syntax"
)

var s1970 = time.Unix(0, 0)

func s1970Clock() time.Time { return s1970 }

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// parseRewritten reads what a client sends by a plan.
func parseRewritten(text string) (*syntax.Query, error) { return syntax.Parse(text) }
