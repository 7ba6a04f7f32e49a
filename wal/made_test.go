package wal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// wantWhole demands that each log file is as long as its header says.
func wantWhole(t *testing.T, fs *vfs.Mem, made func(number uint64) int64) {
	t.Helper()
	for _, name := range fs.Names() {
		n, ok := ParseFileName(strings.TrimPrefix(name, logDir+"/"))
		if !ok {
			continue
		}
		data, err := fs.ReadFile(name)
		must(t, err)
		h, err := DecodeFileHeader(name, data)
		must(t, err)
		if h.Made > int64(len(data)) || h.Made != made(n) {
			t.Errorf("%s: made with %d bytes, has %d, want %d", name, h.Made, len(data), made(n))
		}
	}
}

// TestCutLiveLog: a log whose writer was killed and that was cut afterwards does
// not open as a shorter one, however its file was made: new, out of a spare, for a huge record
// in place of one that was made ahead, in any state that a power cut leaves.
func TestCutLiveLog(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, mem, &st, o)
	var want []entry
	add := func(n int) {
		e, pos := put(t, l, 1, filler(len(want), n))
		must(t, l.Wait(pos, true))
		want = append(want, e)
	}
	for l.Newest() < 3 {
		add(1000)
	}
	wantWhole(t, mem, func(uint64) int64 { return minFileBytes })
	st.First = 3
	must(t, l.Drop(3))
	want = want[len(want)-1:]
	for l.Newest() < 5 { // out of spares
		add(1000)
	}
	if l.Stats().Recycled == 0 {
		t.Fatal("no file was used again")
	}
	must(t, l.MakeSpare(t.Context()))
	if l.maker.next.Load() == nil {
		t.Fatal("no file was made ahead")
	}
	add(300 << 10) // takes the place of the one that was made ahead
	if l.Newest() != 6 {
		t.Fatalf("file %d", l.Newest())
	}
	wantWhole(t, mem, func(n uint64) int64 {
		if n == 6 {
			return fitting(recordBytes(300 << 10))
		}
		return minFileBytes
	})
	add(10)
	for seed := range uint64(20) {
		for how, image := range images(mem, seed*10) {
			got, rec, err := replay(image, st, o)
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			wantEntries(t, got, want)
			if rec.Dropped != (Dropped{}) {
				t.Errorf("%s: dropped %+v", how, rec.Dropped)
			}
		}
	}
	data, err := mem.ReadFile(name(6))
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	cuts := []int64{fileHeaderBytes, l.mu.offset, int64(len(data)) - 1}
	for range 20 {
		cuts = append(cuts, fileHeaderBytes+rng.Int64N(int64(len(data))-fileHeaderBytes))
	}
	for _, n := range cuts {
		image := mem.Kill()
		must(t, image.WriteFile(name(6), data[:n]))
		_, _, err := replay(image, st, o)
		wantCorrupt(t, err, name(6), n, "cut")
	}
}

// TestReplaceMadeAhead: a file that was made ahead, and is too small, keeps its name until
// the larger one has it: a reader that has listed it meets no missing file. Where the disk
// has no room for both, the small one goes first.
func TestReplaceMadeAhead(t *testing.T) {
	for _, full := range []bool{false, true} {
		mem, o, st := newMem(t), smallOptions(1), State{}
		fs := vfs.NewFaulty(mem)
		l, _ := mustOpen(t, fs, &st, o)
		first, pos := put(t, l, 1, "first")
		must(t, errors.Join(l.Wait(pos, true), l.MakeSpare(t.Context())))
		const huge = 300 << 10
		if full {
			mem.SetCapacity(minFileBytes + fitting(recordBytes(huge))) // the first file and the larger one
		}
		made := false
		fs.SetHook(func(c vfs.Call) error {
			made = made || c.Op == vfs.OpCreate
			if _, err := mem.Stat(name(2)); err != nil && !full {
				t.Errorf("before %+v: %v", c, err)
			}
			return nil
		})
		e, pos := put(t, l, 1, filler(1, huge))
		must(t, l.Wait(pos, true))
		if !made || l.Newest() != 2 {
			t.Errorf("full %v: made %v, file %d", full, made, l.Newest())
		}
		got, _ := mustReplay(t, mem, st, o)
		wantEntries(t, got, []entry{first, e})
	}
}

// TestCutMadeAhead: a file that was made ahead and has no records is no shorter
// either.
func TestCutMadeAhead(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, mem, &st, o)
	_, pos := put(t, l, 1, "one")
	must(t, l.Wait(pos, true))
	must(t, l.MakeSpare(t.Context()))
	data, err := mem.ReadFile(name(2))
	must(t, err)
	must(t, mem.WriteFile(name(2), data[:1000]))
	_, _, err = replay(mem, st, o)
	wantCorrupt(t, err, name(2), 1000, "cut")
}

// TestCutAfterNote: Close leaves the file as long as it was made, for a crash before the
// manifest notes its length; Cut makes it short, but not one with two names.
func TestCutAfterNote(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, mem, &st, o)
	e, _ := put(t, l, 1, "one")
	c, err := l.Close()
	must(t, err)
	got, _ := mustReplay(t, mem.Kill(), st, o)
	wantEntries(t, got, []entry{e})
	st.Closed = append(st.Closed, c)
	must(t, mem.Link(name(1), "other"))
	must(t, Cut(mem, logDir, c))
	if info, err := mem.Stat(name(1)); err != nil || info.Size != minFileBytes {
		t.Errorf("a file with two names: %+v, %v", info, err)
	}
	must(t, mem.Remove("other"))
	must(t, Cut(mem, logDir, c))
	if info, err := mem.Stat(name(1)); err != nil || info.Size != c.Length {
		t.Errorf("cut to %d: %+v, %v", c.Length, info, err)
	}
	for _, image := range images(mem, 1) {
		got, _ := mustReplay(t, image, st, o)
		wantEntries(t, got, []entry{e})
	}
}

// TestHugeRecordOnFullDisk: where there is no space for the file of a huge record
// smaller ones go on.
func TestHugeRecordOnFullDisk(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, mem, &st, o)
	must(t, l.MakeSpare(t.Context()))
	mem.SetCapacity(3 * minFileBytes)
	if _, _, err := l.Append(1, TypeWrite, 1, []byte(filler(0, 300<<10)), nil); !errors.Is(err, fault.ErrDiskFull) {
		t.Fatal(err)
	}
	var want []entry
	for l.Newest() < 3 {
		e, pos := put(t, l, 1, filler(len(want), 1000))
		must(t, l.Wait(pos, true))
		want = append(want, e)
	}
	for _, image := range images(mem, 1) {
		got, _ := mustReplay(t, image, st, o)
		wantEntries(t, got, want)
	}
}

// TestDroppedIsCounted: what Recover drops is counted, in the file that is torn and in those
// behind a hole, and once the lengths are noted ReadFile finds it again.
func TestDroppedIsCounted(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, mem, &st, o)
	var ends []int64
	var files []uint64
	for l.Newest() < 3 {
		_, pos := put(t, l, 1, filler(len(ends), 1000))
		must(t, l.Wait(pos, false))
		ends, files = append(ends, l.mu.offset), append(files, l.Newest())
	}
	data, err := mem.ReadFile(name(1))
	must(t, err)
	data[ends[9]+headerBytes]++ // a hole at the eleventh record
	must(t, mem.WriteFile(name(1), data))
	got, rec := mustReplay(t, mem, st, o)
	if len(got) != 10 {
		t.Fatalf("%d records", len(got))
	}
	const seals = 2
	last := slices.Index(files, 2) - 1
	bytes := ends[last] + sealBytes - ends[9] // file 1
	last = slices.Index(files, 3) - 1
	bytes += ends[last] + sealBytes - fileHeaderBytes // file 2
	bytes += ends[len(ends)-1] - fileHeaderBytes      // file 3
	if want := (Dropped{bytes, int64(len(ends) - 10 + seals)}); rec.Dropped != want {
		t.Errorf("dropped %+v, want %+v", rec.Dropped, want)
	}
	var found Dropped
	for _, c := range rec.Closed {
		_, _, info, err := readAll(mem, c.File, c.Length)
		must(t, err)
		found.add(info.Dropped)
	}
	if found != rec.Dropped {
		t.Errorf("found again %+v, dropped %+v", found, rec.Dropped)
	}
	noted := State{Closed: rec.Closed}
	again, _ := mustOpen(t, mem, &noted, o)
	if d := again.Stats().Dropped; d != (Dropped{}) {
		t.Errorf("dropped twice: %+v", d)
	}
}
