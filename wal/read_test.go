package wal

import (
	"context"
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// readAll reads a file and returns what was found.
func readAll(fs vfs.FS, n uint64, length int64) (entries []entry, vouched int, info *FileInfo, err error) {
	info, err = ReadFile(fs, logDir, n, length, func(r *Record) error {
		if r.Type != TypeSeal && r.Type != TypeVouch {
			entries = append(entries, entry{r.Stream, r.Type, r.Seq, r.Count, string(r.Payload)})
		}
		if r.Vouched {
			vouched++
		}
		return nil
	})
	return entries, vouched, info, err
}

func TestReadFile(t *testing.T) {
	d := makeDamagedLog(t)
	got, vouched, info, err := readAll(d.fs, 1, -1)
	must(t, err)
	wantEntries(t, got, d.first)
	end := d.sealed[len(d.sealed)-1].end
	if !info.Sealed || info.Length != end || info.Records != int64(len(d.sealed)) || info.TornReason != "" || info.Size != minFileBytes ||
		info.Header.Number != 1 || info.Header.StoreID != d.opts.StoreID || info.LastSeq != d.first[len(d.first)-1].seq {
		t.Errorf("sealed file: %+v", info)
	}
	if vouched != 0 { // no mark covers a record before it was read
		t.Errorf("%d vouched for", vouched)
	}
	all := entriesBefore(d.list, d.end)
	got, vouched, info, err = readAll(d.fs, 2, d.end)
	must(t, err)
	wantEntries(t, got, all)
	if vouched != len(all) || info.Sealed || info.Mark != d.end {
		t.Errorf("noted file: %d vouched for, %+v", vouched, info)
	}
	// Torn at its last record.
	last := d.list[len(d.list)-1]
	data := slices.Clone(d.sound[1])
	data[last.off+headerBytes]++
	must(t, d.fs.WriteFile(name(2), data))
	got, _, info, err = readAll(d.fs, 2, -1)
	must(t, err)
	wantEntries(t, got, all[:len(all)-1])
	if info.Length != last.off || info.TornBytes != last.end-last.off || info.TornReason == "" {
		t.Errorf("torn file: %+v", info)
	}
	_, _, info, err = readAll(d.fs, 2, d.end)
	wantCorrupt(t, err, name(2), last.off, "torn file of noted length")
	if info == nil || info.Records != int64(len(d.list)-1) {
		t.Errorf("what was found: %+v", info)
	}
	// Damaged below the mark.
	data[d.list[2].off+headerBytes]++
	must(t, d.fs.WriteFile(name(2), data))
	got, _, info, err = readAll(d.fs, 2, -1)
	wantCorrupt(t, err, name(2), d.list[2].off, "damaged record")
	wantEntries(t, got, entriesBefore(d.list, d.list[2].off))
	if info.Length != d.list[2].off || info.Mark <= info.Length {
		t.Errorf("damaged file: %+v", info)
	}
	// No file, no header.
	if _, _, info, err := readAll(d.fs, 9, -1); info != nil || !errors.Is(err, fault.ErrMissing) {
		t.Errorf("missing file: %+v, %v", info, err)
	}
	must(t, d.fs.WriteFile(name(2), data[:fileHeaderBytes-1]))
	_, _, info, err = readAll(d.fs, 2, -1)
	wantCorrupt(t, err, name(2), 0, "short header")
	if info != nil {
		t.Errorf("short header: %+v", info)
	}
}

// TestReadWhileWriting reads the file that takes records, of which more are
// vouched for as it is read.
func TestReadWhileWriting(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, fs, &st, o)
	var all []entry
	write := func(n int) {
		for range n {
			e, pos := put(t, l, 1, filler(len(all), 40))
			all = append(all, e)
			must(t, l.Wait(pos, true))
		}
	}
	write(10)
	// Behind the place where the reader stops, records appear that vouch for
	// it: it looks again instead of calling that damage.
	faulty, reads := vfs.NewFaulty(fs), 0
	stop := l.mu.offset
	before, err := fs.ReadFile(name(1))
	must(t, err)
	write(5)
	after, err := fs.ReadFile(name(1))
	must(t, err)
	must(t, fs.WriteFile(name(1), slices.Concat(before[:stop+32], after[stop+32:]))) // the page that came last
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRead {
			if reads++; reads == 3 { // the header, the records, the search beyond
				must(t, fs.WriteFile(name(1), after))
			}
		}
		return nil
	})
	got, _, info, err := readAll(faulty, 1, -1)
	must(t, err)
	wantEntries(t, got, all)
	if info.Length != l.mu.offset {
		t.Errorf("%+v", info)
	}
}

// TestReadRecycled: a file that gets another use while it is read.
func TestReadRecycled(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, fs, &st, o)
	put(t, l, 1, "a")
	put(t, l, 1, "b")
	must(t, l.Sync())
	n := 0
	_, err := ReadFile(fs, logDir, 1, -1, func(*Record) error {
		if n++; n == 1 {
			data, err := fs.ReadFile(name(1))
			must(t, err)
			h := appendFileHeader(nil, &FileHeader{Version: FormatVersion, Number: 3, ID: 99})
			must(t, fs.WriteFile(name(1), append(h, data[len(h):]...)))
		}
		return nil
	})
	if !errors.Is(err, ErrRecycled) {
		t.Errorf("recycled file: %v", err)
	}
}

// TestCallbackError: what the callback returns ends the reading.
func TestCallbackError(t *testing.T) {
	d := makeDamagedLog(t)
	stop, n := errors.New("stop"), 0
	fn := func(*Record) error {
		if n++; n == 2 {
			return stop
		}
		return nil
	}
	if _, err := ReadFile(d.fs, logDir, 1, -1, fn); err != stop || n != 2 {
		t.Errorf("ReadFile after %d records: %v", n, err)
	}
	n = 0
	if _, err := Recover(t.Context(), d.fs, logDir, State{}, d.opts, fn); err != stop || n != 2 {
		t.Errorf("Recover after %d records: %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Recover(ctx, d.fs, logDir, State{}, d.opts, fn); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestBufferedTailIsReadTwice counts what a recovery reads of a last file without a
// synced record: once to look for a mark, once to deliver.
func TestBufferedTailIsReadTwice(t *testing.T) {
	mem := newMem(t)
	o := smallOptions(1)
	o.MaxFileBytes, o.FirstFileBytes = 4<<20, 4<<20
	st := State{First: 1}
	l, _ := mustOpen(t, mem, &st, o)
	for i := range 300 {
		put(t, l, 1, filler(i, 20<<10))
	}
	must(t, l.flush(l.Appended()))
	killed := mem.Kill()
	mustClose(t, l, &st)
	const last = 2 // the file that the records end in

	faulty := vfs.NewFaulty(killed)
	var read int64
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRead && c.Name == path.Join(logDir, FileName(last)) {
			read += c.Len
		}
		return nil
	})
	got, rec := mustReplay(t, faulty, State{First: 1}, o)
	if len(got) != 300 {
		t.Fatalf("%d records, want 300", len(got))
	}
	end := rec.Closed[last-1].Length
	if end < 1<<20 {
		t.Fatalf("the last file has %d bytes of records", end)
	}
	// Windows overlap by a record.
	if read > 2*end+end/4 {
		t.Errorf("%d bytes were read of a file with %d bytes of records", read, end)
	}
}

// TestReader: a record is read by its place, in any order, whole or not at all; and so is one
// that was written after the bytes around it were read.
func TestReader(t *testing.T) {
	d := makeDamagedLog(t)
	r, err := OpenReader(d.fs, logDir, 2)
	must(t, err)
	defer r.Close()
	for at := range len(d.list) {
		s := d.list[(at*5+3)%len(d.list)]
		got, err := r.At(s.off)
		must(t, err)
		if e := (entry{got.Stream, got.Type, got.Seq, got.Count, string(got.Payload)}); s.entry.typ != 0 && e != s.entry || got.File != 2 || got.Offset != s.off {
			t.Errorf("at %d: %+v, want %+v", s.off, got, s)
		}
	}
	for _, off := range []int64{0, fileHeaderBytes - alignment, d.list[1].off + 8, d.list[1].off + alignment, d.end, 1 << 40} {
		_, err := r.At(off)
		wantCorrupt(t, err, name(2), off, "no record")
	}
	for _, s := range d.list { // each byte of each record
		for at := s.off; at < s.end; at += 7 {
			data := slices.Clone(d.sound[1])
			data[at] ^= 4
			must(t, d.fs.WriteFile(name(2), data))
			damaged, err := OpenReader(d.fs, logDir, 2)
			must(t, err)
			_, err = damaged.At(s.off)
			wantCorrupt(t, err, name(2), s.off, "damaged record")
			damaged.Close()
		}
	}

	var st State
	fs := newMem(t)
	l, _ := mustOpen(t, fs, &st, smallOptions(1))
	var grows *Reader
	for i := range 20 {
		payload := filler(i, 100)
		pos, at, err := l.AppendCarried(3, uint64(i), []byte(payload))
		must(t, err)
		must(t, l.Wait(pos, false))
		if grows == nil {
			grows, err = OpenReader(fs, logDir, at.File)
			must(t, err)
			defer grows.Close()
		}
		got, err := grows.At(at.Offset)
		must(t, err)
		if string(got.Payload) != string(payload) || got.Seq != uint64(i) || got.Type != TypeCarried {
			t.Errorf("record %d: %+v", i, got)
		}
	}
}
