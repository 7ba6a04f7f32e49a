package physical_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/partmap"
)

// TestFlush: a flush makes durable what the memtable holds and shows it, names the file
// and the sequence in the manifest, and tells what it did. A dropped partition is not
// flushed.
func TestFlush(t *testing.T) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	pk := partmap.String("p")
	r := s.Write(p, pk, "a", true)
	p.Freeze()
	s.Write(p, pk, "b", false)
	s.OK(p.FlushFrozen(t.Context()))
	if s.Log.Synced() < r.Pos || p.Visible.Load() != r.Seq {
		t.Errorf("flushed with the log synced up to %d of %d, visible %d of %d", s.Log.Synced(), r.Pos, p.Visible.Load(), r.Seq)
	}
	if m := s.Manifest(p); m.FlushedSeq != r.Seq || len(m.Runs) != 1 {
		t.Errorf("manifest: sequence %d, %d runs", m.FlushedSeq, len(m.Runs))
	}
	if len(s.Flushes) != 1 || s.Flushes[0].Items != 1 || s.Flushes[0].Bytes == 0 {
		t.Errorf("told: %+v", s.Flushes)
	}
	if n := p.Version.Load().Active.Versions(); n != 1 {
		t.Errorf("%d versions in the memtable, want that of the write behind the flush", n)
	}
	p.Freeze()
	p.EndLocked()
	s.OK(p.FlushAlone(t.Context()))
	if m := s.Manifest(p); len(m.Runs) != 1 || len(s.Flushes) != 1 {
		t.Error("a dropped partition was flushed")
	}
}

// TestFilesWithinFirstLevel: a file ends once it is large enough also between keys that agree
// in their first level, and never within a logical partition.
func TestFilesWithinFirstLevel(t *testing.T) {
	s := physicaltest.New(t)
	s.FileBytes, s.Family.Levels = 2<<10, 2
	p := s.Partition(1, physicaltest.Whole())
	const users, items = 300, 3
	for _, compacts := range []bool{false, true} {
		for i := range users * items {
			pk, err := partmap.Join(partmap.String("tenant"), partmap.String(fmt.Sprint(i%users)))
			s.OK(err)
			s.Write(p, pk, fmt.Sprintf("an item with the number %d", i/users), false)
		}
		p.Freeze()
		s.OK(p.FlushFrozen(t.Context()))
		if compacts {
			s.OK(p.CompactFully(t.Context()))
		}
		for _, r := range p.Version.Load().Runs {
			logical, from := uint64(0), partmap.MinEPK()
			for _, f := range r.Files {
				logical += f.Properties().LogicalPartitions
				if f.Min != from || f.Clip != nil || f.Ref.Size > 3*s.FileBytes {
					t.Errorf("file [%s, %s) has %d bytes, cut: %v; it follows %s", f.Min, f.Max, f.Ref.Size, f.Clip != nil, from)
				}
				from = f.Max
			}
			if logical != users || len(r.Files) < 4 || r.Items() != users*items {
				t.Errorf("%d files with %d items and %d logical partitions of %d", len(r.Files), r.Items(), logical, users)
			}
		}
	}
}

// TestCompactFully: afterwards nothing is left that is dead, in one run. Without waiting,
// a compaction does nothing while another one runs.
func TestCompactFully(t *testing.T) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	pk := partmap.String("p")
	for range 3 {
		s.Write(p, pk, "a", false)
		p.Freeze()
		s.OK(p.FlushFrozen(t.Context()))
	}
	s.OK(p.Compacting.Lock(t.Context()))
	if done, err := p.CompactOne(t.Context()); done || err != nil {
		t.Errorf("beside another compaction: %v, %v", done, err)
	}
	p.Compacting.Unlock()
	s.OK(p.CompactFully(t.Context()))
	if want := []string{"compaction: 1 of 3 items"}; !slices.Equal(s.Rewritten, want) {
		t.Errorf("told %q, want %q", s.Rewritten, want)
	}
	k := lsmtest.Key(pk, "a")
	epk := pk.EPK()
	var v item.Version
	if _, found, err := p.Version.Load().Lookup(&k, &epk, lsm.MaxSequence, nil, true, &v); !found || err != nil || v.Seq != p.LastSeq() {
		t.Errorf("found %v with sequence %d of %d, %v", found, v.Seq, p.LastSeq(), err)
	}
}

// TestMeasured: what compactions drain is known while one is under way, and what a run takes
// of the write buffers before the first flush, and after one of a small memtable.
func TestMeasured(t *testing.T) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	pk := partmap.String("p")
	if n := p.TableBytes.Load(); n != s.MemtableBytes {
		t.Errorf("a new partition takes %d bytes of write buffers for a run, want %d", n, s.MemtableBytes)
	}
	for run := range 3 {
		for i := range 200 {
			s.Write(p, pk, fmt.Sprint(run, i), false)
		}
		p.Freeze()
		s.OK(p.FlushFrozen(t.Context()))
	}
	if n := p.TableBytes.Load(); n >= s.MemtableBytes || n < s.MemtableBytes/3 {
		t.Errorf("after three flushes of little a run takes %d bytes, of %d", n, s.MemtableBytes)
	}
	var paced, asked int
	s.Crowded = func() bool {
		if asked++; p.Drain.Pace(10, 0) > 0 {
			paced++
		}
		return false
	}
	s.OK(p.CompactFully(t.Context()))
	if asked == 0 || paced != asked {
		t.Errorf("a compaction was seen %d times of %d", paced, asked)
	}
	if pace := p.Drain.Pace(10, 0); pace != 0 {
		t.Errorf("a pace of %v after its end", pace)
	}
}

// TestSplitQueued: the rewriting of a file gives way to a split of its partition.
func TestSplitQueued(t *testing.T) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	s.Write(p, partmap.String("p"), "a", false)
	p.Freeze()
	s.OK(p.FlushFrozen(t.Context()))
	rewrite := func() (bool, error) {
		return p.InTurn(t.Context(), true, func() (bool, error) {
			return p.RewriteFile(t.Context(), physical.Reindex, nil, func(*lsm.File) bool { return true })
		})
	}
	p.SplitQueued = func() bool { return true }
	if done, err := rewrite(); done || err != lsm.ErrMoved {
		t.Errorf("with a split queued: %v, %v", done, err)
	}
	p.SplitQueued = func() bool { return false }
	if done, err := rewrite(); !done || err != nil || len(s.Rewritten) != 1 {
		t.Errorf("without: %v, %v, told %q", done, err, s.Rewritten)
	}
}
