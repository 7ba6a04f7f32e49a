package gateway

import (
	"context"
	"testing"
	"time"
)

var s1970 = time.Unix(0, 0)

func s1970Clock() time.Time { return s1970 }

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
