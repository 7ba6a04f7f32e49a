package wal

import (
	"bytes"
	"errors"
	"math"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// gate holds back syncs of one log file, the making of files, or that log files lose their
// names, until it is opened.
type gate struct {
	vfs.FS
	file  string // base name
	syncs chan struct{}
	makes chan struct{} // nil: not held back
	ends  chan struct{} // as makes
}

func (g *gate) end(name string) {
	if g.ends != nil && strings.HasSuffix(name, logSuffix) {
		<-g.ends
	}
}

func (g *gate) Rename(from, to string) error {
	g.end(from)
	return g.FS.Rename(from, to)
}

func (g *gate) Remove(name string) error {
	g.end(name)
	return g.FS.Remove(name)
}

func (g *gate) Create(name string) (vfs.File, error) {
	if g.makes != nil {
		<-g.makes
	}
	return g.FS.Create(name)
}

func (g *gate) OpenWrite(name string) (vfs.File, error) {
	f, err := g.FS.OpenWrite(name)
	if err == nil && strings.HasSuffix(name, "/"+g.file) {
		return gatedFile{f, g}, nil
	}
	return f, err
}

type gatedFile struct {
	vfs.File
	gate *gate
}

func (f gatedFile) Sync() error {
	<-f.gate.syncs
	return f.File.Sync()
}

func (f gatedFile) SyncReserved() error {
	<-f.gate.syncs
	return f.File.SyncReserved()
}

// TestFullFileSyncHoldsUpNobody: while a full file is synced, buffered writers go
// on in the files that follow, and synced ones wait for it. A power cut meanwhile
// leaves a prefix of all records, whichever of the files the kernel wrote.
func TestFullFileSyncHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, o, st := newMem(t), smallOptions(1), State{}
		fs := &gate{FS: mem, file: FileName(1), syncs: make(chan struct{})}
		l, _ := mustOpen(t, fs, &st, o)
		var want []entry
		var pos Position
		fill := func(until uint64) {
			for l.Newest() < until {
				var e entry
				e, pos = put(t, l, Stream(len(want)%3+1), filler(len(want), 700))
				want = append(want, e)
				must(t, l.Wait(pos, false))
			}
		}
		fill(2)
		synced := make(chan error, 1)
		durable, upTo := len(want), pos
		go func() { synced <- l.Wait(upTo, true) }()
		synctest.Wait()
		fill(4)
		if l.Synced() > 0 || len(synced) > 0 {
			t.Fatalf("synced up to %d while the first file is not", l.Synced())
		}
		torn := 0
		for seed := range uint64(60) {
			for how, image := range images(mem, seed*10) {
				got, rec, err := replay(image, st, o)
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				wantEntries(t, got, want[:min(len(got), len(want))])
				if rec.TornFile > 0 && rec.TornFile < 4 {
					torn++
				}
				// The dropped records stay so.
				noted := st
				again, found := mustOpen(t, image, &noted, o)
				wantEntries(t, found, got)
				mustClose(t, again, &noted)
				found, _ = mustReplay(t, image.Crash(vfs.CrashOptions{}), noted, o)
				wantEntries(t, found, got)
			}
		}
		if torn == 0 {
			t.Error("no power cut left a hole in a full file")
		}
		got, _ := mustReplay(t, mem.Kill(), st, o)
		wantEntries(t, got, want)
		close(fs.syncs)
		must(t, <-synced)
		got, _ = mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, o)
		if len(got) < durable {
			t.Errorf("%d records after a power cut, %d were synced", len(got), durable)
		}
		must(t, l.Sync())
		// From here on a later file vouches for the full ones: a hole is damage.
		_, pos = put(t, l, 1, "vouches")
		must(t, l.Wait(pos, true))
		got, _ = mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, o)
		if len(got) != len(want)+1 {
			t.Errorf("%d records after a power cut, %d were synced", len(got), len(want)+1)
		}
		data, err := mem.ReadFile(name(1))
		must(t, err)
		data[len(data)-1000] ^= 1
		must(t, mem.WriteFile(name(1), data))
		if _, _, err := replay(mem, st, o); err == nil {
			t.Error("damage in a full file that a later one vouches for was taken for a torn tail")
		}
		mustClose(t, l, &st)
	})
}

// TestMakingHoldsUpNobody: while a writer waits for the next file to be made,
// nobody waits for it whose record fits into the present one.
func TestMakingHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, o, st := newMem(t), smallOptions(1), State{}
		fs := &gate{FS: mem}
		l, _ := mustOpen(t, fs, &st, o)
		fs.makes = make(chan struct{})
		put(t, l, 1, filler(0, 40<<10))
		large := make(chan error, 1)
		go func() {
			_, _, err := l.Append(1, TypeWrite, 1, []byte(filler(1, 40<<10)), nil)
			large <- err
		}()
		synctest.Wait()
		if len(large) > 0 {
			t.Fatal("no file had to be made")
		}
		if !l.mu.TryLock() {
			t.Fatal("the lock of those who append is held while a file is made")
		}
		l.mu.Unlock()
		_, pos := put(t, l, 1, "small")
		must(t, l.Wait(pos, true))
		close(fs.makes)
		must(t, <-large)
		mustClose(t, l, &st)
		got, _ := mustReplay(t, mem, st, o)
		if len(got) != 3 || got[1].payload != "small" {
			t.Errorf("%d records", len(got))
		}
	})
}

// TestRetiringHoldsUpNobody: while a file that the log needs no more is renamed or
// removed, a writer gets the next file.
func TestRetiringHoldsUpNobody(t *testing.T) {
	for _, tc := range []struct {
		name  string
		names int // of the file
	}{{"renamed", 1}, {"removed", 2}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, o, st := newMem(t), smallOptions(1), State{}
				fs := &gate{FS: mem}
				l, _ := mustOpen(t, fs, &st, o)
				if tc.names == 2 {
					must(t, mem.Link(name(1), "checkpoint.log"))
				}
				put(t, l, 1, "in the first file")
				must(t, l.Rotate())
				fs.ends = make(chan struct{})
				dropped := make(chan error, 1)
				go func() { dropped <- l.Drop(l.FirstNeeded(func(Stream, uint64) uint64 { return math.MaxUint64 })) }()
				synctest.Wait()
				if len(dropped) > 0 {
					t.Fatal("no file was let go of")
				}
				if l.maker.TryLock() {
					l.maker.Unlock()
					put(t, l, 1, "in the second file")
					must(t, l.Rotate())
				} else {
					t.Error("the lock of those who need a file is held while another one ends")
				}
				close(fs.ends)
				must(t, <-dropped)
				if spares := l.Stats().Spares; spares != 2-tc.names {
					t.Errorf("%d spares", spares)
				}
				mustClose(t, l, &st)
			})
		})
	}
}

// TestOneRandomIDAtATime: the log draws each random id under the lock of the maker of
// files, so that the source may be for one goroutine.
func TestOneRandomIDAtATime(t *testing.T) {
	o, st := smallOptions(1), State{}
	o.KeepSpareBytes = 1 << 20
	l, _ := mustOpen(t, newMem(t), &st, o)
	random, drawn := l.opts.RandomID, 0
	l.opts.RandomID = func() uint64 {
		drawn++
		if l.maker.TryLock() {
			l.maker.Unlock()
			t.Error("an id is drawn beside others")
		}
		return random()
	}
	put(t, l, 1, "in the first file")
	must(t, l.Rotate())
	must(t, l.Drop(l.FirstNeeded(func(Stream, uint64) uint64 { return math.MaxUint64 })))
	if spares := l.Stats().Spares; spares != 1 || drawn < 2 {
		t.Errorf("%d spares, %d ids: one for the next file, one for the spare", spares, drawn)
	}
	mustClose(t, l, &st)
}

// stalledFile is a file whose first sync takes an hour.
type stalledFile struct{ syncs int }

func (f *stalledFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

func (f *stalledFile) Sync() error {
	if f.syncs++; f.syncs == 1 {
		time.Sleep(time.Hour)
	}
	return nil
}

// TestFillAfterStall: who fills a file does not rest for as long as the device has stalled.
func TestFillAfterStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, f, h := time.Now(), new(stalledFile), FileHeader{Made: 4 * fillPiece}
		if filled, err := new(maker).fillFile(t.Context(), f, &h, 0, true); err != nil || filled != h.Made || f.syncs < 4 {
			t.Errorf("filled up to %d with %d syncs, %v", filled, f.syncs, err)
		}
		if took := time.Since(begun); took > time.Hour+time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// TestVouchBehindRotate: a record that comes while Rotate syncs is in the file that Rotate seals, and the seal vouches
// only for those before it. Once the log is idle, damage to the record is found all the same.
func TestVouchBehindRotate(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	faulty := vfs.NewFaulty(mem)
	l, _ := mustOpen(t, faulty, &st, o)
	must(t, l.MakeSpare(t.Context()))
	put(t, l, 1, "before")
	comes := false
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpSync && !comes && strings.HasSuffix(c.Name, FileName(1)) {
			comes = true
			put(t, l, 1, "meanwhile")
		}
		return nil
	})
	must(t, l.Rotate())
	faulty.SetHook(nil)
	if !comes || l.Newest() != 2 {
		t.Fatalf("a record came: %v, file %d", comes, l.Newest())
	}
	must(t, l.Vouch())
	written := l.Appended()
	must(t, l.Vouch())
	if l.Appended() != written {
		t.Error("the log vouches again")
	}
	name := path.Join(logDir, FileName(1))
	b, err := mem.ReadFile(name)
	must(t, err)
	b[bytes.Index(b, []byte("meanwhile"))] ^= 1
	must(t, mem.WriteFile(name, b))
	if got, _, err := replay(mem, st, o); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("%v, %v; want ErrCorrupt", got, err)
	}
}
