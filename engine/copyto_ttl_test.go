package engine

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCopyToAfterDefaultTTL: what has expired by a default that was set a moment ago, and could come back by another one, is
// copied.
func TestCopyToAfterDefaultTTL(t *testing.T) {
	ctx, opts := t.Context(), testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	opts.ExpiryGrace = time.Hour
	def := ContainerDef{PartitionKey: []string{"/k"}, MutableTTL: true, DefaultTTL: NoExpiry}
	_, src := openStore(t, opts, def)
	putCopied(t, src, "a", "i", 1)
	clock.pass(10 * time.Hour)
	must(t, src.SetDefaultTTL(ctx, time.Hour))
	def.PartitionKey = []string{"/n"}
	p, err := copied(ctx, src, "dst", def)
	must(t, err)
	dst, err := p.Finish(ctx)
	must(t, err)
	must(t, dst.SetDefaultTTL(ctx, 0))
	if _, err := dst.Read(ctx, NumberKey(1), "i"); err != nil {
		t.Errorf("the item is not back: %v", err)
	}
}
