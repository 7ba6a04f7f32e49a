package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCopyToClockAhead makes passes of a copy, and each time another one while the clock is ahead
// and all items are hidden. Once the clock is right the copy has what its source has: nothing is
// missing, and nothing that was deleted or overwritten is there.
func TestCopyToClockAhead(t *testing.T) {
	ctx := t.Context()
	for ahead := range 4 {
		o := testOptions(vfs.NewMem())
		clock := newTestClock(o)
		def := ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: 24 * time.Hour}
		_, src := openStore(t, o, def)
		def.PartitionKey = []string{"/n"}
		for i := range 4 {
			putCopied(t, src, "k", "moved", 0)
			putCopied(t, src, "k", fmt.Sprint("deleted", i), 0)
			putCopied(t, src, fmt.Sprint("whole", i), "emptied", fmt.Sprint(i))
		}
		var p *CopyJob
		for i, pass := range []func() error{
			func() (err error) { p, err = copied(ctx, src, "dst", def); return err },
			func() error { return p.CatchUp(ctx) },
			func() (err error) { // goes on with an unfinished copy
				p.Cancel()
				p, err = copied(ctx, src, "dst", def)
				return err
			},
			func() error { return second(p.Finish(ctx)) },
		} {
			putCopied(t, src, "k", "moved", i+1)
			putCopied(t, src, "k", fmt.Sprint("new", i), i)
			must(t, src.Delete(ctx, StringKey("k"), fmt.Sprint("deleted", i), nil))
			must(t, src.DeleteLogicalPartition(ctx, StringKey(fmt.Sprint("whole", i)), nil))
			if i == ahead {
				clock.jump(48 * time.Hour)
			}
			must(t, pass())
			if i == ahead {
				clock.jump(-48 * time.Hour)
			}
			if err := sameItems(src, p.Container()); err != nil {
				t.Errorf("the clock is ahead in pass %d; after pass %d: %v", ahead, i, err)
			}
		}
		clock.pass(25 * time.Hour)
		for it, err := range p.Container().ScanAll(ctx, nil) {
			t.Errorf("in the copy: %s %v", it.ID, err)
		}
	}
}

// TestCopyToCollisionExpired: an item that has expired collides with another one as long as it
// may be there again.
func TestCopyToCollisionExpired(t *testing.T) {
	ctx := t.Context()
	o := testOptions(vfs.NewMem())
	clock := newTestClock(o)
	_, src := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	mortal := func(key, id string) {
		t.Helper()
		must(t, second(src.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":%q,"n":1}`, id, key), &WriteOptions{TTL: time.Minute})))
	}
	mortal("a", "before")
	putCopied(t, src, "b", "before", 1)
	putCopied(t, src, "a", "after", 1)
	mortal("b", "after")
	clock.pass(2 * time.Minute)
	if _, err := copied(ctx, src, "dst", copyDef); !errors.Is(err, ErrExists) {
		t.Fatalf("the item can come back: %v", err)
	}
	clock.pass(2 * time.Hour)
	p, err := copied(ctx, src, "dst", copyDef)
	must(t, err)
	must(t, sameItems(src, p.Container()))
	mortal("a", "later") // and is in the copy
	must(t, p.CatchUp(ctx))
	must(t, sameItems(src, p.Container()))
	putCopied(t, src, "b", "later", 1)
	if err := p.CatchUp(ctx); !errors.Is(err, ErrExists) {
		t.Fatalf("the item is there: %v", err)
	}
	clock.pass(2 * time.Hour)
	must(t, second(p.Finish(ctx)))
	must(t, sameItems(src, p.Container()))
}
