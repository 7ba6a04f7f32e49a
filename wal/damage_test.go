package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

func crcOf(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }

// span is a record of a file as it lies there.
type span struct {
	off, end, mark int64
	entry          entry // of a stream, else of no type
}

// spans reads the headers of a sound file on its own.
func spans(t testing.TB, data []byte) []span {
	t.Helper()
	h, err := DecodeFileHeader("", data)
	must(t, err)
	var p place
	p.setID(h.ID)
	var list []span
	for off := int64(fileHeaderBytes); off+headerBytes <= int64(len(data)) && !zero(data[off:][:headerBytes]); {
		var r header
		if _, ok := p.get(data[off:], off, &r); !ok {
			t.Fatalf("no record at %d", off)
		}
		s := span{off: off, end: r.end(off), mark: r.mark}
		if r.typ != TypeSeal && r.typ != TypeVouch {
			s.entry = entry{r.stream, r.typ, r.seq, r.count, string(data[off+headerBytes : off+r.length])}
		}
		list = append(list, s)
		off = s.end
	}
	return list
}

// entriesBefore returns the entries of the records that end at off or before.
func entriesBefore(list []span, off int64) (entries []entry) {
	for _, s := range list {
		if s.end <= off && s.entry.typ != 0 {
			entries = append(entries, s.entry)
		}
	}
	return entries
}

// damagedLog is a log of one sealed file and one that takes records; some of
// its newest records nothing vouches for.
type damagedLog struct {
	fs     *vfs.Mem
	opts   Options
	first  []entry // those of file 1
	list   []span  // records of file 2
	sound  [2][]byte
	end    int64 // of the records of file 2
	sealed []span
}

func name(n uint64) string { return logDir + "/" + FileName(n) }

func makeDamagedLog(t testing.TB) *damagedLog {
	d := &damagedLog{fs: newMem(t), opts: smallOptions(1)}
	var st State
	l, _ := mustOpen(t, d.fs, &st, d.opts)
	for i := 0; l.Stats().Rotations == 0; i++ {
		size := 9000
		if i >= 7 {
			size = 150
		}
		_, pos := put(t, l, 2, filler(i, size))
		must(t, l.Wait(pos, true))
	}
	for i := range 16 {
		_, pos := put(t, l, Stream(i%3), filler(i, i*i%60))
		must(t, l.Wait(pos, i%5 == 2 && i < 14))
	}
	for i := range d.sound {
		var err error
		d.sound[i], err = d.fs.ReadFile(name(uint64(i + 1)))
		must(t, err)
	}
	d.sealed, d.list = spans(t, d.sound[0]), spans(t, d.sound[1])
	d.first = entriesBefore(d.sealed, minFileBytes)
	d.end = d.list[len(d.list)-1].end
	return d
}

// verdict is what recovery is to say about a file.
type verdict struct {
	corrupt bool
	at      int64 // offset of the first record that does not verify
}

// expect is the rule of the synced-up-to mark, without the reader: bytes [from,
// to) of a file with these records are changed.
func expect(list []span, from, to int64) verdict {
	if from < fileHeaderBytes {
		return verdict{true, 0}
	}
	hit := func(s span) bool { return from < s.end && to > s.off }
	for i, s := range list {
		if !hit(s) {
			continue
		}
		for _, later := range list[i:] {
			if !hit(later) && later.mark > s.off {
				return verdict{true, s.off}
			}
		}
		return verdict{false, s.off}
	}
	return verdict{false, list[len(list)-1].end}
}

// check recovers and compares with the verdict for file 2; noted says that the
// manifest has its length.
func (d *damagedLog) check(t testing.TB, want verdict, noted bool, what string) {
	t.Helper()
	st := State{}
	if noted {
		st.Closed = []Closed{{2, d.end}}
		if want.at < d.end {
			want.corrupt = true
		}
	}
	got, rec, err := replay(d.fs, st, d.opts)
	if want.corrupt {
		wantCorrupt(t, err, name(2), want.at, what)
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if all := append(slices.Clone(d.first), entriesBefore(d.list, want.at)...); !slices.Equal(got, all) {
		t.Fatalf("%s: %d records, want %d", what, len(got), len(all))
	}
	if length := rec.Files[1].Length; length != want.at {
		t.Fatalf("%s: length %d, want %d", what, length, want.at)
	}
	if want.at < d.end && rec.TornFile == 2 && rec.TornOffset != want.at {
		t.Fatalf("%s: torn at %d, want %d", what, rec.TornOffset, want.at)
	}
}

func wantCorrupt(t testing.TB, err error, file string, off int64, what string) {
	t.Helper()
	var corruption *fault.CorruptionError
	if !errors.As(err, &corruption) {
		t.Fatalf("%s: %v, want corruption at %d", what, err, off)
	}
	if corruption.File != "mem/"+file || off >= 0 && corruption.Offset != off {
		t.Fatalf("%s: %v, want %s, offset %d", what, err, file, off)
	}
}

// TestFlipEachByte damages each byte in turn: below the mark that is
// corruption, beyond it the log ends there.
func TestFlipEachByte(t *testing.T) {
	d := makeDamagedLog(t)
	corrupt, torn := 0, 0
	for off := range d.end + 100 {
		data := slices.Clone(d.sound[1])
		data[off] ^= 1 << (off % 8)
		must(t, d.fs.WriteFile(name(2), data))
		want := expect(d.list, off, off+1)
		what := fmt.Sprintf("byte %d", off)
		d.check(t, want, false, what)
		d.check(t, want, true, what+", length noted")
		if want.corrupt {
			corrupt++
		} else if want.at < d.end {
			torn++
		}
	}
	if corrupt < 400 || torn < 100 {
		t.Errorf("%d bytes below the mark, %d beyond it", corrupt, torn)
	}
}

// TestZeroRanges loses stretches of bytes, as blocks that were never written.
func TestZeroRanges(t *testing.T) {
	d := makeDamagedLog(t)
	for _, n := range []int64{32, 512, 4096} {
		for off := int64(fileHeaderBytes); off < d.end; off += 16 {
			data := slices.Clone(d.sound[1])
			end := min(off+n, int64(len(data)))
			clear(data[off:end])
			must(t, d.fs.WriteFile(name(2), data))
			from, to := off, end // what was zero is not lost
			for ; from < to && d.sound[1][from] == 0; from++ {
			}
			for ; from < to && d.sound[1][to-1] == 0; to-- {
			}
			want := verdict{at: d.end}
			if from < to {
				want = expect(d.list, from, to)
			}
			what := fmt.Sprintf("zeros in [%d, %d)", off, end)
			d.check(t, want, false, what)
			d.check(t, want, true, what+", length noted")
		}
	}
}

// TestTruncateEachLength cuts the file that takes records: its header tells how long
// it was made, or else a noted length tells the loss. Of a file whose header does not
// say what is whole is there.
func TestTruncateEachLength(t *testing.T) {
	d := makeDamagedLog(t)
	h, err := DecodeFileHeader("", d.sound[1])
	must(t, err)
	if h.Made != minFileBytes {
		t.Fatalf("made with %d bytes", h.Made)
	}
	h.Made = 0
	older := append(appendFileHeader(nil, &h), d.sound[1][fileHeaderBytes:]...)
	for n := range int64(minFileBytes) {
		if n > d.end+100 && n < minFileBytes-3 {
			continue
		}
		what := fmt.Sprintf("cut at %d", n)
		want := expect(d.list, n, minFileBytes)
		if n >= fileHeaderBytes {
			want.corrupt = false // no mark is left
		}
		must(t, d.fs.WriteFile(name(2), older[:n]))
		d.check(t, want, false, what+", of an older file")
		must(t, d.fs.WriteFile(name(2), d.sound[1][:n]))
		d.check(t, want, true, what+", length noted")
		if n >= fileHeaderBytes {
			want = verdict{true, n}
		}
		d.check(t, want, false, what)
		_, _, _, err := readAll(d.fs, 2, -1)
		wantCorrupt(t, err, name(2), want.at, what+", read alone")
	}
}

// TestNotedLength: what lies behind the noted length does not count, whatever
// it is.
func TestNotedLength(t *testing.T) {
	d := makeDamagedLog(t)
	for _, s := range d.list {
		st := State{Closed: []Closed{{2, s.end}}}
		got, rec := mustReplay(t, d.fs, st, d.opts)
		wantEntries(t, got, append(slices.Clone(d.first), entriesBefore(d.list, s.end)...))
		if rec.Closed[1] != st.Closed[0] || rec.TornFile != 0 {
			t.Errorf("noted %+v: %+v", st.Closed, rec)
		}
		if _, _, err := replay(d.fs, State{Closed: []Closed{{2, s.end - alignment}}}, d.opts); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("noted length within a record: %v", err)
		}
	}
}

// TestDamagedSealedFile: no byte of a file that others follow may be wrong, and
// none may be missing.
func TestDamagedSealedFile(t *testing.T) {
	d := makeDamagedLog(t)
	end := d.sealed[len(d.sealed)-1].end
	for off := int64(0); off < end; off++ {
		if off > fileHeaderBytes && off < end-300 {
			off += 96
		}
		data := slices.Clone(d.sound[0])
		data[off] ^= 0x80
		must(t, d.fs.WriteFile(name(1), data))
		at := expect(d.sealed, off, off+1).at
		_, _, err := replay(d.fs, State{}, d.opts)
		wantCorrupt(t, err, name(1), at, fmt.Sprintf("byte %d", off))
	}
	for n := int64(0); n < end; n += 1001 {
		must(t, d.fs.WriteFile(name(1), d.sound[0][:n]))
		_, _, err := replay(d.fs, State{}, d.opts)
		wantCorrupt(t, err, name(1), -1, fmt.Sprintf("cut at %d", n))
	}
	// Nothing counts behind a seal.
	must(t, d.fs.WriteFile(name(1), append(slices.Clone(d.sound[0][:end]), filler(1, 1000)...)))
	_, _, err := replay(d.fs, State{}, d.opts)
	must(t, err)
}

// TestWrongFiles: files that change places, are missing, are somebody else's or
// not of this format.
func TestWrongFiles(t *testing.T) {
	header := func(change func(*FileHeader)) []byte {
		h := FileHeader{Version: FormatVersion, Number: 2, ID: 5, StoreID: [16]byte{7, 1}}
		change(&h)
		return append(appendFileHeader(nil, &h), make([]byte, 100)...)
	}
	for what, c := range map[string]struct {
		change func(fs *vfs.Mem, d *damagedLog) error
		st     State
		file   uint64
		off    int64
	}{
		"second file is the first": {func(fs *vfs.Mem, d *damagedLog) error { return fs.WriteFile(name(2), d.sound[0]) }, State{}, 2, 16},
		"first file is the second": {func(fs *vfs.Mem, d *damagedLog) error { return fs.WriteFile(name(1), d.sound[1]) }, State{}, 1, 16},
		"first file missing":       {func(fs *vfs.Mem, d *damagedLog) error { return fs.Remove(name(1)) }, State{}, 1, 0},
		"gap":                      {func(fs *vfs.Mem, d *damagedLog) error { return fs.WriteFile(name(4), d.sound[1]) }, State{}, 3, 0},
		"noted file missing":       {func(fs *vfs.Mem, d *damagedLog) error { return nil }, State{Closed: []Closed{{3, 64}}}, 3, 0},
		"needed file missing":      {func(fs *vfs.Mem, d *damagedLog) error { return nil }, State{First: 3}, 3, 0},
		"empty file":               {func(fs *vfs.Mem, d *damagedLog) error { return fs.WriteFile(name(2), nil) }, State{}, 2, 0},
		"other store": {func(fs *vfs.Mem, d *damagedLog) error {
			return fs.WriteFile(name(2), header(func(h *FileHeader) { h.StoreID[3] = 1 }))
		}, State{}, 2, 32},
		"format 0": {func(fs *vfs.Mem, d *damagedLog) error {
			return fs.WriteFile(name(2), header(func(h *FileHeader) { h.Version = 0 }))
		}, State{}, 2, 8},
	} {
		d := makeDamagedLog(t)
		must(t, c.change(d.fs, d))
		_, _, err := replay(d.fs, c.st, d.opts)
		wantCorrupt(t, err, name(c.file), c.off, what)
	}
	for what, change := range map[string]func(*FileHeader){
		"newer format": func(h *FileHeader) { h.Version++ },
		"encrypted":    func(h *FileHeader) { h.Cipher = 1 },
	} {
		d := makeDamagedLog(t)
		must(t, d.fs.WriteFile(name(2), header(change)))
		if _, _, err := replay(d.fs, State{}, d.opts); !errors.Is(err, fault.ErrTooNew) || errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestStaleRecords: whatever an earlier use of a file left in it, records of
// other ids and of other places among it, is not replayed.
func TestStaleRecords(t *testing.T) {
	d := makeDamagedLog(t)
	h := FileHeader{Version: FormatVersion, Number: 2, ID: 12345, StoreID: d.opts.StoreID}
	fresh := appendFileHeader(nil, &h)
	check := func(data []byte, torn bool, want []entry, what string) {
		t.Helper()
		must(t, d.fs.WriteFile(name(2), data))
		got, rec := mustReplay(t, d.fs, State{}, d.opts)
		if !slices.Equal(got, append(slices.Clone(d.first), want...)) || torn != (rec.TornFile == 2) {
			t.Errorf("%s: %d records, want %d; %+v", what, len(got), len(d.first)+len(want), rec)
		}
	}
	old := d.sound[1]
	// With and without the zeros that end the file cleanly.
	clean := slices.Concat(fresh, zeros[:terminatorBytes], old[fileHeaderBytes+terminatorBytes:])
	check(clean, false, nil, "clean end")
	check(slices.Concat(fresh, old[fileHeaderBytes:]), true, nil, "no end")
	// Records of the same file at another offset.
	cut := d.list[0].end
	shifted := slices.Concat(old[:cut], old[d.list[4].off:], make([]byte, d.list[4].off-cut))
	check(shifted, true, entriesBefore(d.list, cut), "moved records")
	// A record of this use and stale ones behind it.
	var p place
	p.setID(h.ID)
	payload := []byte("new")
	r := header{length: headerBytes + 3, stream: 1, seq: 1000, typ: TypeWrite, count: 1, mark: fileHeaderBytes}
	b := make([]byte, recordBytes(len(payload)))
	sum := crcOf(payload)
	p.put(b, fileHeaderBytes, &r, sum)
	copy(b[headerBytes:], payload)
	one := []entry{{1, TypeWrite, 1000, 1, "new"}}
	check(slices.Concat(fresh, b, old[fileHeaderBytes+len(b):]), true, one, "stale records behind")
	check(slices.Concat(fresh, b, zeros[:terminatorBytes], old[fileHeaderBytes+len(b)+terminatorBytes:]), false, one, "stale records behind the end")
}

// TestWrongSeal: a seal that does not fit is damage even if it verifies.
func TestWrongSeal(t *testing.T) {
	d := makeDamagedLog(t)
	h, err := DecodeFileHeader("", d.sound[0])
	must(t, err)
	var p place
	p.setID(h.ID)
	seal := d.sealed[len(d.sealed)-1]
	var r header
	if _, ok := p.get(d.sound[0][seal.off:], seal.off, &r); !ok {
		t.Fatal("no seal")
	}
	data := slices.Clone(d.sound[0])
	payload := data[seal.off+headerBytes:][:sealPayloadBytes]
	payload[0]++
	p.put(data[seal.off:], seal.off, &r, crcOf(payload))
	must(t, d.fs.WriteFile(name(1), data))
	_, _, err = replay(d.fs, State{}, d.opts)
	wantCorrupt(t, err, name(1), seal.off, "wrong seal")
}

// TestSequenceOrder: sequences that do not rise are damage.
func TestSequenceOrder(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, fs, &st, o)
	put(t, l, 1, "a")
	l.lastSeq.Store(0)
	_, pos := put(t, l, 1, "b")
	must(t, l.Wait(pos, true))
	_, _, err := replay(fs, st, o)
	wantCorrupt(t, err, name(1), fileHeaderBytes+48, "sequence 1 twice")
}

// TestDamageAfterRotate: after Rotate no record follows those of the sealed file, and damage
// to them is found: by the mark of the seal, and in a log that was closed also to the seal,
// by the noted length of the file that follows.
func TestDamageAfterRotate(t *testing.T) {
	for _, files := range []int{1, 3} { // sealed ones
		mem, st, o := newMem(t), State{}, smallOptions(1)
		l, _ := mustOpen(t, mem, &st, o)
		var all []entry
		for i := range 5 * files {
			e, pos := put(t, l, 1, filler(i, 40))
			must(t, l.Wait(pos, false))
			if all = append(all, e); i%5 == 4 {
				must(t, l.Rotate())
			}
		}
		must(t, l.Vouch())
		killed, open := mem.Kill(), st
		mustClose(t, l, &st)
		for number := uint64(1); number <= uint64(files); number++ {
			sound, err := mem.ReadFile(name(number))
			must(t, err)
			list := spans(t, sound)
			for _, s := range list {
				seal := s.entry.typ == 0
				for off := s.off; off < s.end; off++ {
					damaged := slices.Clone(sound)
					damaged[off] ^= 1
					must(t, errors.Join(mem.WriteFile(name(number), damaged), killed.WriteFile(name(number), damaged)))
					what := fmt.Sprintf("%d files, byte %d of file %d", files, off, number)
					_, _, err := replay(mem, st, o)
					wantCorrupt(t, err, name(number), s.off, what)
					got, _, err := replay(killed, open, o)
					if seal && number == uint64(files) {
						must(t, err) // it looks like a torn write, and no record is missing
						wantEntries(t, got, all)
					} else {
						wantCorrupt(t, err, name(number), s.off, what+", not closed")
					}
				}
			}
			must(t, errors.Join(mem.WriteFile(name(number), sound), killed.WriteFile(name(number), sound)))
		}
		for _, image := range []*vfs.Mem{mem.Crash(vfs.CrashOptions{}), killed.Crash(vfs.CrashOptions{})} {
			got, _ := mustReplay(t, image, open, o)
			wantEntries(t, got, all)
		}
		got, rec := mustReplay(t, mem.Crash(vfs.CrashOptions{}), st, o)
		wantEntries(t, got, all)
		info, err := ReadFile(mem, logDir, rec.NextFile-1, fileHeaderBytes, func(*Record) error { return nil })
		if must(t, err); rec.TornFile != 0 || !info.Vouches {
			t.Errorf("%+v, the last file %+v", rec, info)
		}
	}
}
