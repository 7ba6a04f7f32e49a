package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// TestFlushAwaitsSync flushes a memtable with a write that waits for its sync: the
// flush waits too, and shows nothing before.
func TestFlushAwaitsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		gate, db, c := openGated(t)
		acked := make(chan error, 2)
		go func() { acked <- second(c.Upsert(ctx, smallDocument("new", "a", 10), nil)) }()
		synctest.Wait()
		p := db.partitions()[0]
		p.Freeze()
		go func() { acked <- p.FlushOldest(ctx) }()
		synctest.Wait()
		if n := len(p.Version.Load().Runs); n != 0 {
			t.Errorf("%d runs of what is not synced", n)
		}
		if _, err := c.Read(ctx, StringKey("a"), "new"); !errors.Is(err, ErrNotFound) {
			t.Errorf("read before the sync: %v", err)
		}
		gate.release()
		for range 2 {
			if err := <-acked; err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Read(ctx, StringKey("a"), "new"); err != nil {
			t.Error(err)
		}
		must(t, db.Close())
	})
}

// segmentFS changes what is written to the segment files that it makes.
type segmentFS struct {
	vfs.FS
	create func()
	write  func(b []byte)
}

func (f *segmentFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err == nil && strings.HasSuffix(name, ".seg.tmp") {
		if f.create != nil {
			f.create()
		}
		return segmentFile{file, f}, nil
	}
	return file, err
}

type segmentFile struct {
	vfs.File
	fs *segmentFS
}

func (f segmentFile) WriteAt(b []byte, off int64) (int, error) {
	if f.fs.write != nil {
		b = append([]byte(nil), b...)
		f.fs.write(b)
	}
	return f.File.WriteAt(b, off)
}

// flushRefused has a flush that goes wrong be refused: all reads on, and a flush with
// the fault gone succeeds.
func flushRefused(t *testing.T, db *DB, c *Container, refusal func(error) bool, mend func()) {
	t.Helper()
	ctx := context.Background()
	if err := db.Flush(ctx); !refusal(err) {
		t.Errorf("flush: %v", err)
	}
	mend()
	for range 2 {
		for i := range 20 {
			if _, err := c.Read(ctx, StringKey("a"), fmt.Sprint(i)); err != nil {
				t.Errorf("item %d: %v", i, err)
			}
		}
		must(t, db.Flush(ctx))
	}
}

// TestFlushReadsBack: what the device does not give back as it was written takes no
// memtable's place.
func TestFlushReadsBack(t *testing.T) {
	fsys := &segmentFS{FS: vfs.NewMem()}
	db, c := openStore(t, testOptions(fsys))
	for i := range 20 {
		upsert(t, c, fmt.Sprint(i), 100)
	}
	flips := 0
	fsys.write = func(b []byte) {
		if len(b) > 1000 && flips == 0 { // the documents
			b[len(b)/2] ^= 1
			flips++
		}
	}
	flushRefused(t, db, c, func(err error) bool { return errors.Is(err, ErrCorrupt) }, func() { fsys.write = nil })
	if flips != 1 {
		t.Errorf("%d bits flipped", flips)
	}
}

// TestFlushCounts: a flush that has not read all versions of its memtable is refused.
func TestFlushCounts(t *testing.T) {
	fsys := &segmentFS{FS: vfs.NewMem()}
	db, c := openStore(t, testOptions(fsys))
	for i := range 20 {
		upsert(t, c, fmt.Sprint(i), 100)
	}
	p := db.partitions()[0]
	fsys.create = func() {
		// Where the flush has been already.
		fsys.create = nil
		var k item.Key
		var epk partmap.EPK
		fillKey(&k, &epk, StringKey("a").Encoded(), []byte("!"))
		v := item.Version{Seq: 1, Body: smallDocument("!", "a", 10)}
		must(t, p.Version.Load().Frozen[0].Put(&k, &v, true))
	}
	flushRefused(t, db, c, func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "21 versions held, 20 read")
	}, func() {})
	if _, err := c.Read(context.Background(), StringKey("a"), "!"); err != nil {
		t.Errorf("a version that a flush has passed over: %v", err)
	}
}

// TestFlushedBehindFlush: what is frozen while a call flushes is flushed too, though no write follows.
func TestFlushedBehindFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Container
		var armed atomic.Bool
		fsys := &changedMeanwhile{FS: vfs.NewMem(), change: func() {
			if armed.CompareAndSwap(true, false) {
				for i := range 100 {
					upsert(t, c, fmt.Sprint(i), 1000)
				}
				synctest.Wait() // flushers have passed over the partition
			}
		}}
		o := testOptions(fsys)
		o.manual, o.Durability = false, Buffered
		var db *DB
		db, c = openStore(t, o)
		upsert(t, c, "a", 1000)
		synctest.Wait()
		armed.Store(true)
		must(t, db.Flush(t.Context()))
		synctest.Wait()
		if n := len(c.routing.Load().parts[0].Version.Load().Frozen); n > 0 || armed.Load() {
			t.Errorf("%d frozen memtables", n)
		}
	})
}
