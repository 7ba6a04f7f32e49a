package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
)

var chainLines = []string{
	"backup 01 full true up to 5 of 2 files", "record of 1 up to 4: one", "record of 2 up to 5: two",
	"file 1 of 5 bytes", "data 11111", "file 2 of 3 bytes", "data 222",
	"backup 02 full false up to 8 of 2 files", "record of 2 up to 8: three", "file 3 of 4 bytes", "data 3333",
}

// TestRoundTrip reads a full backup and an incremental one behind it, whole and a byte at
// a time: each record, each file, and the descriptions as the writer gave them.
func TestRoundTrip(t *testing.T) {
	full, next, infos := fullAndNext(t)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(append(slices.Clone(full), next...)),
		"bytes": iotest.OneByteReader(io.MultiReader(bytes.NewReader(full), bytes.NewReader(next))),
	} {
		var l listener
		got, err := listen(t.Context(), r, &l)
		must(t, err)
		if !slices.Equal(l.lines, chainLines) {
			t.Errorf("%s: read %q", name, l.lines)
		}
		if !reflect.DeepEqual(got, infos) {
			t.Errorf("%s: described as %+v, want %+v", name, got, infos)
		}
	}
	if f := infos[0]; f.Parent != "" || f.ID != "01"+strings.Repeat("00", 15) || f.Seq != 5 || f.Time.UnixMilli() != 1_700_000_000_000 || len(f.Files) != 2 {
		t.Errorf("%+v", f)
	}
	if n := infos[1]; n.Parent != infos[0].ID || n.Store != infos[0].Store || n.Files[0].Carried || !n.Files[1].Carried {
		t.Errorf("%+v", n)
	}
	text, err := json.Marshal(infos[1])
	must(t, err)
	var back Info
	must(t, json.Unmarshal(text, &back))
	if !reflect.DeepEqual(back, infos[1]) {
		t.Errorf("%s reads as %+v", text, back)
	}
}

// TestPieces: a catalog and data of more than one block come as they were, and a backup
// of nothing too.
func TestPieces(t *testing.T) {
	empty := &Catalog{Full: true, Store: manifest.Store{Head: manifest.Head{SeqLimit: 1}}}
	stream, _ := streamOf(t, empty)
	var l listener
	must(t, second(listen(t.Context(), bytes.NewReader(stream), &l)))
	if !slices.Equal(l.lines, []string{"backup 00 full true up to 0 of 0 files"}) {
		t.Errorf("of nothing: %q", l.lines)
	}
	const size = 2*pieceBytes + 5
	c := catalogOf(1, 5, func(c *Catalog) {
		c.Store.Containers[0].Name = strings.Repeat("n", pieceBytes)
		c.Partitions[0].Runs[0].Files[0].Size, c.Files[0].Size = size, size
	})
	const large = 4 << 20 // the length of the body takes as many bytes
	rest := MaxBlock - recordBytes - len(record(5, strings.Repeat("r", large)))
	stream, info := streamOf(t, c, oneVersion{1, 5, strings.Repeat("r", large+rest)})
	l = listener{}
	infos, err := listen(t.Context(), bytes.NewReader(stream), &l)
	must(t, err)
	var lengths []int
	for _, line := range l.lines {
		if data, ok := strings.CutPrefix(line, "data "); ok {
			lengths = append(lengths, len(data))
		}
	}
	if !slices.Equal(lengths, []int{pieceBytes, pieceBytes, 5, 3}) || !reflect.DeepEqual(infos, []Info{info}) {
		t.Errorf("data in pieces of %d", lengths)
	}
	w, err := NewWriter(io.Discard, c)
	must(t, err)
	if err := w.Record(1, 5, make([]byte, MaxBlock-recordBytes+1)); err == nil {
		t.Error("a record that no reader takes was written")
	}
}

// TestTruncated cuts a chain at every byte: only between its streams is it whole, and
// what was handed on before is the beginning of what there is.
func TestTruncated(t *testing.T) {
	full, next, _ := fullAndNext(t)
	all := append(slices.Clone(full), next...)
	for n := range len(all) {
		var l listener
		infos, err := listen(t.Context(), bytes.NewReader(all[:n]), &l)
		switch {
		case n == 0 || n == len(full):
			if err != nil || len(infos) != n/len(full) {
				t.Errorf("cut at %d: %d backups, %v", n, len(infos), err)
			}
		case corruptAt(err) != int64(n):
			t.Errorf("cut at %d: %v", n, err)
		case len(infos) != n/len(full):
			t.Errorf("cut at %d: %d backups", n, len(infos))
		}
		if len(l.lines) > len(chainLines) || !slices.Equal(l.lines, chainLines[:len(l.lines)]) {
			t.Fatalf("cut at %d: handed on %q", n, l.lines)
		}
	}
}

// TestFlippedBits changes each bit of a chain: the damage is found at the block in which
// it lies, before that is handed on.
func TestFlippedBits(t *testing.T) {
	full, next, _ := fullAndNext(t)
	all := append(slices.Clone(full), next...)
	starts := append(blocksOf(full), shifted(blocksOf(next), len(full))...)
	for i := range all {
		n, _ := slices.BinarySearch(starts, i+1)
		for bit := range 8 {
			all[i] ^= 1 << bit
			var l listener
			infos, err := listen(t.Context(), bytes.NewReader(all), &l)
			all[i] ^= 1 << bit
			at := corruptAt(err)
			// A length that is another one may also end the input.
			if at != int64(starts[n-1]) && at != int64(len(all)) || len(infos) != i/len(full) {
				t.Fatalf("byte %d, bit %d, in the block at %d: %d backups, %v", i, bit, starts[n-1], len(infos), err)
			}
			if len(l.lines) > len(chainLines) || !slices.Equal(l.lines, chainLines[:len(l.lines)]) {
				t.Fatalf("byte %d, bit %d: handed on %q", i, bit, l.lines)
			}
		}
	}
}

// blocksOf returns the offsets of the header and of the blocks of a stream.
func blocksOf(stream []byte) []int {
	list := []int{0}
	for at := headerBytes; at < len(stream); at += blockBytes + int(binary.LittleEndian.Uint32(stream[at+4:])) {
		list = append(list, at)
	}
	return list
}

func shifted(list []int, by int) []int {
	for i := range list {
		list[i] += by
	}
	return list
}

// TestMovedBlocks puts blocks of a stream in another order, leaves some out and takes
// some twice, from this stream or another one: no block verifies in another place.
func TestMovedBlocks(t *testing.T) {
	full, _, _ := fullAndNext(t)
	other, _ := streamOf(t, catalogOf(3, 5, nil), oneVersion{1, 4, "one"}, oneVersion{2, 5, "two"})
	blocks := func(stream []byte) (list [][]byte) {
		starts := append(blocksOf(stream), len(stream))
		for i, at := range starts[1:] {
			list = append(list, stream[starts[i]:at])
		}
		return list
	}
	mine, foreign := blocks(full), blocks(other)
	if len(mine) != 7 { // header, catalog, two records, two pieces of data, trailer
		t.Fatalf("%d blocks", len(mine))
	}
	refused := func(what string, list [][]byte, first int) {
		t.Helper()
		var l listener
		infos, err := listen(t.Context(), bytes.NewReader(bytes.Join(list, nil)), &l)
		want := int64(len(bytes.Join(list[:first], nil)))
		if at := corruptAt(err); at != want && at != int64(len(bytes.Join(list, nil))) || len(infos) > 0 {
			t.Errorf("%s: %d backups, %v; want damage at %d", what, len(infos), err, want)
		}
	}
	for i := 1; i < len(mine); i++ {
		if i < len(mine)-1 {
			refused("doubled", slices.Insert(slices.Clone(mine), i, mine[i]), i+1)
		}
		refused("missing", slices.Delete(slices.Clone(mine), i, i+1), i)
		swapped := slices.Clone(mine)
		swapped[i] = foreign[i]
		refused("of another backup", swapped, i)
		for j := i + 1; j < len(mine); j++ {
			swapped := slices.Clone(mine)
			swapped[i], swapped[j] = mine[j], mine[i]
			refused("swapped", swapped, i)
		}
	}
	swapped := slices.Clone(mine)
	swapped[0] = foreign[0]
	refused("the header of another backup", swapped, 1)
}

// TestOrder writes blocks whose sums are right, in an order that is not, or with what does
// not belong into them.
func TestOrder(t *testing.T) {
	catalog, err := json.Marshal(catalogOf(1, 5, nil))
	must(t, err)
	rec := func(stream uint32, highest uint64) []byte {
		return append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, stream), highest), record(5, "body")...)
	}
	type part struct {
		kind    kind
		payload []byte
	}
	data := []part{{kindData, []byte("11")}, {kindData, []byte("111")}, {kindData, []byte("222")}}
	for _, test := range []struct {
		name  string
		parts []part
		says  string // "": it is whole
		at    int    // the block that is refused
	}{
		{"as it should be", append([]part{{kindCatalog, catalog}, {kindRecords, rec(1, 5)}}, data...), "", 0},
		{"a catalog in two blocks", append([]part{{kindCatalog, catalog[:9]}, {kindCatalog, catalog[9:]}}, data...), "", 0},
		{"an empty piece of data", append([]part{{kindCatalog, catalog}, {kindData, nil}}, data...), "", 0},
		{"no catalog", data, "catalog: ", 0},
		{"records before the catalog", append([]part{{kindRecords, rec(1, 5)}, {kindCatalog, catalog}}, data...), "catalog: ", 0},
		{"records behind data", append(append([]part{{kindCatalog, catalog}}, data...), part{kindRecords, rec(1, 5)}), "bytes where the trailer is expected", 4},
		{"a catalog behind records", append([]part{{kindCatalog, catalog}, {kindRecords, rec(1, 5)}, {kindCatalog, catalog}}, data...), "where 5 bytes of file 1 are missing", 2},
		{"data of two files in one", []part{{kindCatalog, catalog}, {kindData, []byte("11111222")}}, "block of kind 3 and 8 bytes where 5 bytes of file 1 are missing", 1},
		{"too little data", append([]part{{kindCatalog, catalog}}, data[1:]...), "where 2 bytes of file 1 are missing", 2},
		{"too much data", append(append([]part{{kindCatalog, catalog}}, data...), data[2]), "block of kind 3 and 3 bytes where the trailer is expected", 4},
		{"no data", []part{{kindCatalog, catalog}}, "block of kind 4 and 20 bytes where 5 bytes of file 1 are missing", 1},
		{"a short record", append([]part{{kindCatalog, catalog}, {kindRecords, rec(1, 5)[:11]}}, data...), "records block of 11 bytes", 1},
		{"a record above the backup", append([]part{{kindCatalog, catalog}, {kindRecords, rec(1, 6)}}, data...), "log record: of partition 1 up to sequence 6", 1},
		{"a record of a partition that was never made", append([]part{{kindCatalog, catalog}, {kindRecords, rec(3, 5)}}, data...), "log record: of partition 3 up to sequence 5", 1},
		{"a record of the log itself", append([]part{{kindCatalog, catalog}, {kindRecords, rec(0, 5)}}, data...), "log record: of partition 0 up to sequence 5", 1},
		{"a trailer in the middle", append([]part{{kindCatalog, catalog}, {kindTrailer, make([]byte, trailerBytes)}}, data...), "where 5 bytes of file 1 are missing", 1},
		{"no kind", append([]part{{kindCatalog, catalog}, {0, nil}}, data...), "block of kind 0 and 0 bytes", 1},
		{"an unknown kind", append([]part{{kindCatalog, catalog}, {5, nil}}, data...), "block of kind 5 and 0 bytes", 1},
		{"no JSON", append([]part{{kindCatalog, []byte("{")}}, data...), "catalog: ", 0},
		{"a catalog of another backup", append([]part{{kindCatalog, bytes.Replace(catalog, []byte(`"id":"01`), []byte(`"id":"02`), 1)}}, data...), "in a stream of another one", 0},
		{"an unknown field", append([]part{{kindCatalog, append([]byte(`{"colour":1,`), catalog[1:]...)}}, data...), "unknown field", 0},
		{"a catalog that contradicts itself", append([]part{{kindCatalog, bytes.Replace(catalog, []byte(`"seq":5`), []byte(`"seq":99`), 1)}}, data...), "sequence 99 is not below the limit 15", 0},
	} {
		var b bytes.Buffer
		w, err := NewWriter(&b, catalogOf(1, 5, nil))
		must(t, err)
		b.Truncate(headerBytes)
		w.off, w.blocks, w.sums = headerBytes, 0, 0
		at := []int64{}
		for _, p := range test.parts {
			at = append(at, w.off)
			must(t, w.block(p.kind, p.payload))
		}
		at = append(at, w.off)
		must(t, second(w.Close()))
		_, err = listen(t.Context(), &b, new(listener))
		switch {
		case test.says == "":
			must(t, err)
		case corruptAt(err) != at[test.at] || !strings.Contains(err.Error(), test.says):
			t.Errorf("%s: %v; want damage at %d: %s", test.name, err, at[test.at], test.says)
		}
	}
}

// TestTrailer: a trailer that verifies and does not fit.
func TestTrailer(t *testing.T) {
	for name, change := range map[string]func(w *Writer){
		"length": func(w *Writer) { w.off++ },
		"blocks": func(w *Writer) { w.blocks++ },
		"sums":   func(w *Writer) { w.sums++ },
	} {
		var b bytes.Buffer
		w, err := NewWriter(&b, &Catalog{Full: true, Store: manifest.Store{Head: manifest.Head{SeqLimit: 1}}})
		must(t, err)
		var trailer [trailerBytes]byte
		at := w.off
		honest := *w
		change(w)
		binary.LittleEndian.PutUint64(trailer[:], uint64(w.off+blockBytes+trailerBytes))
		binary.LittleEndian.PutUint64(trailer[8:], w.blocks)
		binary.LittleEndian.PutUint32(trailer[16:], w.sums)
		must(t, honest.block(kindTrailer, trailer[:]))
		if _, err := listen(t.Context(), &b, new(listener)); corruptAt(err) != at || !strings.Contains(err.Error(), "trailer: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHeader: what is no backup, and one of a newer version.
func TestHeader(t *testing.T) {
	stream, _ := streamOf(t, catalogOf(1, 5, nil))
	sealed := func(change func(b []byte)) []byte {
		b := bytes.Clone(stream)
		change(b)
		binary.LittleEndian.PutUint32(b[36:], crcOf(b[:36]))
		return b
	}
	for _, test := range []struct {
		name  string
		bytes []byte
		says  string
	}{
		{"a manifest", []byte("cleave-manifest partition 1 00000000 2\n{}xxx"), "not a backup"},
		{"bytes without a meaning", sealed(func(b []byte) { b[28] = 1 }), "bytes without a meaning"},
		{"another id", sealed(func(b []byte) { b[12]++ }), "checksum"},
	} {
		if _, err := listen(t.Context(), bytes.NewReader(test.bytes), new(listener)); corruptAt(err) < 0 || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	newer := sealed(func(b []byte) { b[8] = Version + 1 })
	if _, err := listen(t.Context(), bytes.NewReader(newer), new(listener)); !errors.Is(err, fault.ErrTooNew) || corruptAt(err) >= 0 {
		t.Errorf("a newer version: %v", err)
	}
}

// TestMemory: a reader takes memory for what there is, not for what a length says, and a
// block is never longer than MaxBlock.
func TestMemory(t *testing.T) {
	stream, _ := streamOf(t, catalogOf(1, 5, nil))
	for _, test := range []struct {
		length uint32
		most   int
		says   string
	}{
		{MaxBlock, 128 << 10, "the backup ends in the middle of a block"},
		{MaxBlock + 1, 0, "block of kind 1 and 8388609 bytes"},
		{1<<32 - 1, 0, "block of kind 1 and 4294967295 bytes"},
	} {
		b := bytes.Clone(stream)
		binary.LittleEndian.PutUint32(b[headerBytes+4:], test.length)
		d := NewReader("input", bytes.NewReader(b))
		_, err := d.Next(t.Context(), new(listener))
		if corruptAt(err) < 0 || !strings.Contains(err.Error(), test.says) || cap(d.buf) > test.most {
			t.Errorf("length %d: %v, with %d bytes of memory", test.length, err, cap(d.buf))
		}
	}
}

// TestReaderStops: a reader takes no byte behind a stream, ends with its context, and
// returns errors of its input and of its handler.
func TestReaderStops(t *testing.T) {
	full, _, _ := fullAndNext(t)
	r := bytes.NewReader(append(slices.Clone(full), "other bytes"...))
	must(t, second(NewReader("input", r).Next(t.Context(), new(listener))))
	if r.Len() != len("other bytes") {
		t.Errorf("%d bytes are left", r.Len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := listen(ctx, bytes.NewReader(full), new(listener)); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	broken := errors.New("the tape is torn")
	for n := range full {
		var l listener
		_, err := listen(t.Context(), io.MultiReader(bytes.NewReader(full[:n]), iotest.ErrReader(broken)), &l)
		var failed *fault.IOError
		if !errors.Is(err, broken) || !errors.As(err, &failed) || failed.Offset != int64(n) || errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("torn at %d: %v", n, err)
		}
	}
	for _, method := range []string{"Begin", "Record", "File", "Data"} {
		if _, err := listen(t.Context(), bytes.NewReader(full), &listener{fails: method}); err != errTold {
			t.Errorf("%s fails: %v", method, err)
		}
	}
}

// TestReadForgedRecords: a record whose checksum is right and whose operations are not is
// damage at its block, and is not handed on.
func TestReadForgedRecords(t *testing.T) {
	for what, payload := range map[string][]byte{
		"no operation":          []byte("record"),
		"one above the highest": record(6, "body"),
		"one that is cut":       record(5, "body")[:8],
	} {
		var b bytes.Buffer
		w, err := NewWriter(&b, catalogOf(1, 7, nil))
		must(t, err)
		must(t, w.Record(1, 5, record(5, "right")))
		start := w.Written()
		must(t, w.Record(1, 5, payload))
		var l listener
		if _, err = listen(t.Context(), &b, &l); corruptAt(err) != start || len(l.lines) != 2 {
			t.Errorf("%s: %v, handed on %q; want damage at %d", what, err, l.lines, start)
		}
	}
}

// shortWriter writes so many bytes, and then fails, or writes less without an error.
type shortWriter struct {
	left int
	err  error
}

func (w *shortWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	if w.left -= n; n < len(p) {
		return n, w.err
	}
	return n, nil
}

// TestWriterFails: an error of the underlying writer is returned as it is, wherever it
// comes.
func TestWriterFails(t *testing.T) {
	full, _, _ := fullAndNext(t)
	broken := errors.New("the tape is torn")
	for _, want := range []error{broken, io.ErrShortWrite} {
		for n := range full {
			to := &shortWriter{left: n, err: want}
			if want == io.ErrShortWrite {
				to.err = nil
			}
			w, err := NewWriter(to, catalogOf(1, 5, nil))
			for _, step := range []func() error{
				func() error { return w.Record(1, 4, record(4, "one")) },
				func() error { return w.Record(2, 5, record(5, "two")) },
				func() error { return w.Data([]byte("11111")) },
				func() error { return w.Data([]byte("222")) },
				func() error { return second(w.Close()) },
			} {
				if err == nil {
					err = step()
				}
			}
			if err != want {
				t.Fatalf("after %d bytes: %v, want %v", n, err, want)
			}
		}
	}
}

// TestLargeCatalog: a catalog that no reader takes is refused before anything is written.
func TestLargeCatalog(t *testing.T) {
	if testing.Short() {
		t.Skip("a catalog of 256 MiB")
	}
	var stream bytes.Buffer
	c := catalogOf(1, 5, func(c *Catalog) { c.Store.Containers[0].Name = strings.Repeat("n", manifest.MaxBytes) })
	if _, err := NewWriter(&stream, c); !errors.Is(err, fault.ErrTooLarge) || stream.Len() > 0 {
		t.Errorf("%d bytes of a backup that cannot be read, %v", stream.Len(), err)
	}
}
