package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestTTLOff: where a container has no DefaultTTL a document with a ttl is written,
// keeps its ttl and lives for ever. What is no ttl is refused all the same, and so
// is WriteOptions.TTL.
func TestTTLOff(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	_, c := openStore(t, opts)
	const doc = `{"id":"x","k":"a","ttl":1}`
	_, err := c.Upsert(ctx, []byte(doc), nil)
	must(t, err)
	clock.pass(1000 * time.Hour)
	it, err := c.Read(ctx, StringKey("a"), "x")
	must(t, err)
	if string(it.Body) != doc || !it.Expires.IsZero() {
		t.Errorf("%s, expires %v", it.Body, it.Expires)
	}
	if _, err := c.Upsert(ctx, []byte(`{"id":"y","k":"a","ttl":"soon"}`), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a ttl that is none: %v", err)
	}
	if _, err := c.Upsert(ctx, []byte(doc), &WriteOptions{TTL: time.Second}); !errors.Is(err, ErrInvalid) {
		t.Errorf("WriteOptions.TTL: %v", err)
	}
}
