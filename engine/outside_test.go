package engine

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// forgedStream returns a right stream of one item for the first partition of a
// container, changed before it is written.
func forgedStream(t *testing.T, c *Container, change func(h *transfer.Head, ver *item.Version)) []byte {
	t.Helper()
	p := c.routing.Load().parts[0]
	pk := StringKey("a")
	epk := pk.EPK()
	key := item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk.Encoded(), ID: []byte("x")}
	now := c.db.opts.clock().UnixMilli()
	ver := item.Version{Seq: 9, Modified: now, Body: []byte(`{"id":"x","k":"a"}`)}
	head := c.transferHead(p.Range)
	head.Seq, head.At = 10, manifest.Applied{Index: 5, Time: now}
	change(&head, &ver)
	var b bytes.Buffer
	w, err := transfer.NewWriter(&b, &head)
	must(t, err)
	must(t, w.Add(&key, &ver))
	must(t, w.Close())
	return b.Bytes()
}

// outsideStore is a store with a replicated container and one whose items expire.
func outsideStore(t *testing.T) (mem *vfs.Mem, db *DB, replicated, other *Container) {
	t.Helper()
	ctx := context.Background()
	mem = vfs.NewMem()
	db, replicated = openStore(t, testOptions(mem), ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	other, err := db.CreateContainer(ctx, "other", ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: time.Hour})
	must(t, err)
	_, err = other.Upsert(ctx, []byte(`{"id":"y","k":"b"}`), nil)
	must(t, err)
	return mem, db, replicated, other
}

// TestForeignStreams installs streams whose checksums are right and whose
// sequences, indexes and times are none that a store counts on from. Each is
// refused, and nothing of the store has changed: other containers, and the next
// open, are as they were.
func TestForeignStreams(t *testing.T) {
	ctx := context.Background()
	day := (24 * time.Hour).Milliseconds()
	for _, test := range []struct {
		name   string
		change func(h *transfer.Head, ver *item.Version)
		want   error // nil: it is installed
	}{
		{"as it is", func(*transfer.Head, *item.Version) {}, nil},
		{"the last sequence", func(h *transfer.Head, _ *item.Version) { h.Seq = math.MaxUint64 }, ErrCorrupt},
		{"no room above the sequence", func(h *transfer.Head, _ *item.Version) { h.Seq = transfer.MaxSeq + 1 }, ErrCorrupt},
		{"the last index", func(h *transfer.Head, _ *item.Version) { h.At.Index = math.MaxUint64 }, ErrCorrupt},
		{"no room above the index", func(h *transfer.Head, _ *item.Version) { h.At.Index = transfer.MaxIndex + 1 }, ErrCorrupt},
		{"entry of tomorrow", func(h *transfer.Head, _ *item.Version) { h.At.Time += day }, ErrClockSkew},
		{"entry of the last time", func(h *transfer.Head, _ *item.Version) { h.At.Time = item.MaxTime }, ErrClockSkew},
		{"entry at the end of time", func(h *transfer.Head, _ *item.Version) { h.At.Time = math.MaxInt64 }, ErrCorrupt},
		{"time without an entry", func(h *transfer.Head, _ *item.Version) { h.At = manifest.Applied{Time: math.MaxInt64} }, ErrCorrupt},
		{"item of tomorrow", func(_ *transfer.Head, v *item.Version) { v.Modified += day }, ErrClockSkew},
		{"item at the end of time", func(_ *transfer.Head, v *item.Version) { v.Modified = math.MaxInt64 }, ErrCorrupt},
		{"item before 1970", func(_ *transfer.Head, v *item.Version) { v.Modified = -1 }, ErrCorrupt},
		{"item that expires beyond time", func(_ *transfer.Head, v *item.Version) { v.Expires = math.MaxInt64 }, ErrCorrupt},
		{"item that expired before 1970", func(_ *transfer.Head, v *item.Version) { v.Expires = -1 }, ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			mem, db, c, other := outsideStore(t)
			_, err := c.InstallPartition(ctx, bytes.NewReader(forgedStream(t, c, test.change)))
			if test.want != nil && !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("InstallPartition: %v, want %v", err, test.want)
			}
			id := c.Partitions()[0].ID
			index, err := c.AppliedIndex(id)
			must(t, err)
			if want := map[bool]uint64{true: 5, false: 0}[test.want == nil]; index != want {
				t.Errorf("the partition is at entry %d, want %d", index, want)
			}
			b := c.NewBatch(StringKey("a"))
			must(t, b.Upsert([]byte(`{"id":"z","k":"a"}`), nil))
			applied, err := c.ApplyAt(ctx, id, Entry{Index: index + 1, Time: db.opts.clock(), Batches: []*Batch{b}})
			must(t, err)
			must(t, applied.Results[0].Err)
			for range 2 {
				if _, err := other.Read(ctx, StringKey("b"), "y"); err != nil {
					t.Errorf("an item of another container: %v", err)
				}
				meta, err := other.Upsert(ctx, []byte(`{"id":"w","k":"b"}`), nil)
				must(t, err)
				if left := meta.Expires.Sub(db.opts.clock()); left > 2*time.Hour {
					t.Errorf("an item of an hour expires in %v", left)
				}
				must(t, db.Close())
				db, err = Open(ctx, "store", testOptions(mem))
				if err != nil {
					t.Fatalf("Open: %v", err)
				}
				other, err = db.Container("other")
				must(t, err)
			}
			must(t, db.Close())
		})
	}
}

// TestForeignEntries gives ApplyAt indexes and times that lie too high.
func TestForeignEntries(t *testing.T) {
	ctx := context.Background()
	_, db, c, _ := outsideStore(t)
	defer db.Close()
	id := c.Partitions()[0].ID
	now := db.opts.clock()
	for _, test := range []struct {
		name string
		e    Entry
		want error
	}{
		{"the last index", Entry{Index: math.MaxUint64, Time: now}, ErrInvalid},
		{"index too high", Entry{Index: item.MaxIndex + 1, Time: now}, ErrInvalid},
		{"tomorrow", Entry{Index: 1, Time: now.Add(24 * time.Hour)}, ErrClockSkew},
		{"year 10,000", Entry{Index: 1, Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, ErrClockSkew},
		{"beyond what a time holds in milliseconds", Entry{Index: 1, Time: time.Unix(math.MaxInt64/1000+1, 0)}, ErrInvalid},
		{"a clock that is a little ahead", Entry{Index: 1, Time: now.Add(time.Minute)}, nil},
	} {
		_, err := c.ApplyAt(ctx, id, test.e)
		if test.want != nil && !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if index, err := c.AppliedIndex(id); err != nil || index != 0 && test.want != nil {
			t.Errorf("%s: the partition is at entry %d, %v", test.name, index, err)
		}
	}
}

// TestForgedLogSequence opens a store whose log has a record with a sequence that
// no store comes to: the error names the record, and nothing is changed.
func TestForgedLogSequence(t *testing.T) {
	ctx := context.Background()
	for _, seq := range []uint64{item.MaxSeq + 1, math.MaxUint64} {
		mem, db, c, _ := outsideStore(t)
		stream := wal.Stream(c.Partitions()[0].ID)
		_, _, err := db.log.AppendCarried(stream, seq, logrecord.AppendMark(nil, 1, manifest.Applied{Index: 1, Time: 1}))
		must(t, err)
		must(t, db.log.Sync())
		mem = mem.Crash(vfs.CrashOptions{})
		db.abandonForTest()
		before := mem.Clone()
		var corrupt *CorruptionError
		if _, err := Open(ctx, "store", testOptions(mem)); !errors.As(err, &corrupt) || corrupt.Offset == 0 {
			t.Errorf("sequence %d: %v", seq, err)
		}
		if !maps.Equal(filesOf(t, mem), filesOf(t, before)) {
			t.Errorf("sequence %d: the open has changed the store", seq)
		}
	}
}
