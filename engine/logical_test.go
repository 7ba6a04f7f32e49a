package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestLogicalPartitions compares with a plain count what memtables and the
// tables of several runs say, for keys of one level and of two.
func TestLogicalPartitions(t *testing.T) {
	ctx := context.Background()
	for _, paths := range [][]string{{"/a"}, {"/a", "/b"}} {
		db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: paths, MinPartitions: 3})
		type sum struct{ documents, bytes int64 }
		truth := make(map[PartitionKey]sum)
		write := func(from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				doc := fmt.Sprintf(`{"id":"%d","a":"k%d","b":%d,"pad":"%s"}`, i, i%300, i%7, strings.Repeat("x", i%50))
				m, err := c.Upsert(ctx, []byte(doc), nil)
				if err != nil {
					t.Fatal(err)
				}
				now := truth[m.Key]
				truth[m.Key] = sum{now.documents + 1, now.bytes + int64(len(doc))}
			}
		}
		flush := func() {
			t.Helper()
			if err := db.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		compare := func(exact bool) {
			t.Helper()
			left := len(truth)
			var last uint64
			parts := c.Partitions()
			for l, err := range c.LogicalPartitions(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				key, err := l.Key()
				if err != nil {
					t.Fatal(err)
				}
				want, ok := truth[key]
				if !ok || l.Versions < want.documents || l.Bytes < want.bytes || exact && (l.Versions != want.documents || l.Bytes != want.bytes) {
					t.Errorf("%v: %d versions, %d bytes, want %+v", key, l.Versions, l.Bytes, want)
				}
				epk := key.EPK()
				if l.Place != epk.Head() || l.Place < last {
					t.Errorf("%v: place %x after %x, want %x", key, l.Place, last, epk.Head())
				}
				for _, p := range parts {
					if in := p.Min <= epk.String() && epk.String() < p.Max; in != (p.ID == l.Partition) {
						t.Errorf("%v: in partition %d", key, l.Partition)
					}
				}
				last = l.Place
				left--
			}
			if left != 0 {
				t.Errorf("%d logical partitions are missing", left)
			}
		}
		compare(true) // empty
		write(0, 1000)
		compare(true)
		flush()
		compare(true)
		write(1000, 1500)
		flush()
		write(1500, 1600)
		compare(true)
		for i := range 200 { // what is overwritten counts too
			doc := fmt.Sprintf(`{"id":"%d","a":"k%d","b":%d,"pad":"%s"}`, i, i%300, i%7, strings.Repeat("x", i%50))
			if _, err := c.Upsert(ctx, []byte(doc), nil); err != nil {
				t.Fatal(err)
			}
		}
		compare(false)
		for range c.LogicalPartitions(ctx) {
			break // leaves nothing behind
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		for _, err := range c.LogicalPartitions(canceled) {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for _, err := range c.LogicalPartitions(ctx) {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
	}
}

// TestLogicalPartitionsReadError fails each read once: all is told, or an
// error.
func TestLogicalPartitionsReadError(t *testing.T) {
	ctx := context.Background()
	faulty := vfs.NewFaulty(vfs.NewMem())
	opts := testOptions(faulty)
	opts.ReadMode = ReadPositioned
	db, c := openStore(t, opts)
	for i := range 50 {
		upsert(t, c, fmt.Sprintf("%03d", i), 700)
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	failures := 0
	for n := int64(1); ; n++ {
		var reads int64
		faulty.SetHook(func(call vfs.Call) error {
			if call.Op == vfs.OpRead && strings.HasSuffix(call.Name, ".seg") {
				if reads++; reads == n {
					return syscall.EIO
				}
			}
			return nil
		})
		var versions int64
		var failed error
		for l, err := range c.LogicalPartitions(ctx) {
			if failed = err; err == nil {
				if _, failed = l.Key(); failed != nil {
					break
				}
				versions += l.Versions
			}
		}
		if failed != nil {
			failures++
			if !errors.Is(failed, ErrIO) {
				t.Errorf("read %d fails: %v", n, failed)
			}
		} else if versions != 50 {
			t.Errorf("read %d fails: %d versions and no error", n, versions)
		}
		if reads < n {
			break
		}
	}
	if failures == 0 {
		t.Error("no read failed: the test reached too little")
	}
	faulty.SetHook(nil)
}
