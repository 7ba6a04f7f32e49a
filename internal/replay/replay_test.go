package replay

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// noting is a partition that notes what it is told.
type noting struct {
	*lsm.Tree
	newest uint64
	entry  manifest.Applied
}

func (p *noting) Data() *lsm.Tree                         { return p.Tree }
func (p *noting) NoteVersion(v *item.Version)             { p.newest = max(p.newest, v.Seq) }
func (p *noting) NoteEntry(_ uint64, at manifest.Applied) { p.entry = at }

// replaying is a replay into some partitions, all of which own stream 7.
func replaying(t *testing.T, parts ...*noting) *Replay {
	return &Replay{FS: vfs.NewMem(), Made: 9, Owners: func(s wal.Stream) (all []Partition) {
		for _, p := range parts {
			if s == 7 {
				all = append(all, p)
			}
		}
		return all
	}}
}

func partition(s *lsmtest.Store, id partmap.PartitionID) *noting {
	p := &noting{Tree: s.Tree()}
	p.ID = id
	return p
}

// write is a record with writes of ids in stream 7.
func write(seq uint64, ids ...string) *wal.Record {
	rec := &wal.Record{Stream: 7, Type: wal.TypeWrite, Seq: seq, Count: uint32(len(ids))}
	for _, id := range ids {
		k := lsmtest.Key(partmap.String("p"), id)
		v := item.Version{Modified: 1, Body: []byte(id)}
		rec.Payload = append(logrecord.AppendHead(rec.Payload, &k, &v), v.Body...)
	}
	return rec
}

// carried is a record that carries a version.
func carried(seq uint64, id string) *wal.Record {
	k := lsmtest.Key(partmap.String("p"), id)
	return &wal.Record{Stream: 7, Type: wal.TypeCarried, Seq: seq, Payload: logrecord.AppendCarried(nil, &k, &item.Version{Seq: seq, Modified: 1, Body: []byte(id)})}
}

// found returns the sequence with which a memtable has an item, 0 if it has none.
func (p *noting) found(id string) uint64 {
	k := lsmtest.Key(partmap.String("p"), id)
	var v item.Version
	if !p.Version.Load().LookupMemory(k.Lookup(), lsm.MaxSequence, &v) {
		return 0
	}
	return v.Seq
}

// TestTake: operations get the sequences of their record; what is flushed is left out; each
// heir takes what lies in its range; a partition that is set aside takes nothing.
func TestTake(t *testing.T) {
	s := lsmtest.New(t, 16<<20)
	own, heir, lost := partition(s, 7), partition(s, 8), partition(s, 8)
	heir.Range.Max = heir.Range.Min // nothing lies in it
	lost.Lost = errors.New("set aside")
	r := replaying(t, own, heir, lost)
	own.Install.FlushedSeq.Store(10)
	for _, rec := range []*wal.Record{write(10, "a", "b", "c"), carried(5, "d"), carried(13, "e")} {
		if err := r.Take(rec); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]uint64{"a": 0, "b": 11, "c": 12, "d": 0, "e": 13} {
		if got := own.found(id); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
	}
	if own.newest != 13 || heir.newest != 0 || lost.newest != 0 {
		t.Errorf("newest %d, %d, %d", own.newest, heir.newest, lost.newest)
	}
	at := manifest.Applied{Index: 4, Time: 99}
	if err := r.Take(&wal.Record{Stream: 7, Type: wal.TypeCarried, Seq: 14, Payload: logrecord.AppendMark(nil, 14, at)}); err != nil || own.entry != at {
		t.Errorf("%+v, %v", own.entry, err)
	}
}

// TestDamage: records that do not make sense are corruption, and name their place.
func TestDamage(t *testing.T) {
	s := lsmtest.New(t, 16<<20)
	narrow := func() *noting {
		p := partition(s, 7)
		p.Range.Max = p.Range.Min
		return p
	}
	fence := &wal.Record{Stream: 7, Type: wal.TypeFence}
	other := func(stream wal.Stream) *wal.Record {
		rec := write(1, "a")
		rec.Stream = stream
		return rec
	}
	for _, tc := range []struct {
		name    string
		p       *noting
		records []*wal.Record
		bad     bool
	}{
		{"a write before its fence", partition(s, 7), []*wal.Record{write(1, "a"), fence}, false},
		{"a write behind its fence", partition(s, 7), []*wal.Record{fence, write(1, "a")}, true},
		{"a partition that was dropped", partition(s, 7), []*wal.Record{other(8)}, false},
		{"a partition that was never made", partition(s, 7), []*wal.Record{other(9)}, true},
		{"a key outside of the range", narrow(), []*wal.Record{write(1, "a")}, true},
		{"a sequence that cannot be", partition(s, 7), []*wal.Record{write(item.MaxSeq, "a", "b")}, true},
		{"junk", partition(s, 7), []*wal.Record{{Stream: 7, Type: wal.TypeWrite, Seq: 1, Count: 1, Payload: []byte{0xff}}}, true},
	} {
		r := replaying(t, tc.p)
		var err error
		for _, rec := range tc.records {
			rec.File, rec.Offset = 3, 77
			if err == nil {
				err = r.Take(rec)
			}
		}
		var at *fault.CorruptionError
		if errors.As(err, &at) != tc.bad || tc.bad && at.Offset != 77 || !tc.bad && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestNewestStays: where a replay has flushed a newer version of an item, a carried older
// one does not come to stand above it.
func TestNewestStays(t *testing.T) {
	s := lsmtest.New(t, 16<<20)
	p := partition(s, 7)
	r := replaying(t, p)
	if err := r.Take(write(9, "a")); err != nil {
		t.Fatal(err)
	}
	s.Freeze(p.Tree) // stands for the flush
	p.Install.Behind = true
	if err := r.Take(carried(4, "a")); err != nil {
		t.Fatal(err)
	}
	k := lsmtest.Key(partmap.String("p"), "a")
	var v item.Version
	if !lsm.GetFromTable(p.Version.Load().Active, k.Lookup(), lsm.MaxSequence, &v) || v.Seq != 9 {
		t.Errorf("the memtable has sequence %d", v.Seq)
	}
}

// TestTombstoneStays: a replay has flushed a partition tombstone and what was written after it. Neither the tombstone, if it
// is carried, nor a carried version that it deletes brings the tombstone above that.
func TestTombstoneStays(t *testing.T) {
	whole := lsmtest.Key(partmap.String("p"), "")
	deleted := item.Version{Seq: 5, Modified: 1, Flags: item.Tombstone}
	for name, again := range map[string]*wal.Record{
		"the tombstone":             {Stream: 7, Type: wal.TypeCarried, Seq: 5, Payload: logrecord.AppendCarried(nil, &whole, &deleted)},
		"a version that it deletes": carried(4, "a"),
	} {
		s := lsmtest.New(t, 16<<20)
		p := partition(s, 7)
		r := replaying(t, p)
		take := func(rec *wal.Record) {
			t.Helper()
			if err := r.Take(rec); err != nil {
				t.Fatal(err)
			}
		}
		take(write(4, "a"))
		take(&wal.Record{Stream: 7, Type: wal.TypeWrite, Seq: 5, Count: 1, Payload: logrecord.AppendHead(nil, &whole, &deleted)})
		take(write(6, "b"))
		s.Freeze(p.Tree) // stands for the flush
		p.Install.Behind = true
		take(again)
		if a, b := p.found("a"), p.found("b"); a != 5 || b != 6 {
			t.Errorf("%s: the newest of a is %d, want the tombstone 5; of b it is %d, want 6", name, a, b)
		}
	}
}
