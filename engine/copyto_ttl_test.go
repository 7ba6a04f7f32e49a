package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// mkdirFS calls before when a directory is made for the first time.
type mkdirFS struct {
	vfs.FS
	before func()
}

func (m *mkdirFS) Mkdir(name string) error {
	if call := m.before; call != nil {
		m.before = nil
		call()
	}
	return m.FS.Mkdir(name)
}

// TestCopyToBesideDefaultTTL: the default time to live does not change while a copy is made that has none, so no item loses
// its time of expiry.
func TestCopyToBesideDefaultTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &mkdirFS{FS: vfs.NewMem()}
		_, src := openStore(t, testOptions(fsys), ContainerDef{PartitionKey: []string{"/k"}, MutableTTL: true})
		var changed <-chan error
		fsys.before = func() {
			changed = background(func() error { return src.SetDefaultTTL(t.Context(), time.Hour) })
			synctest.Wait()
		}
		must(t, second(copied(t.Context(), src, "dst", ContainerDef{PartitionKey: []string{"/n"}})))
		if err := <-changed; !errors.Is(err, ErrCopying) {
			t.Errorf("another default while the copy was made: %v", err)
		}
	})
}

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
