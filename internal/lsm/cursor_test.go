package lsm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// keyOf returns the key of a document in the logical partition of these tests.
func keyOf(id int) item.Key {
	pk := partmap.String("pk")
	epk := pk.EPK()
	k := item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk.Encoded(), ID: fmt.Appendf(nil, "%04d", id)}
	return k.Clone()
}

// bodyOf returns a document that takes a group of its own, and is stored compressed.
func bodyOf(id int, seq uint64) []byte {
	var b []byte
	for i := range 100 {
		b = fmt.Appendf(b, "%d %d %d, ", id, seq, i)
	}
	return b
}

// newRun returns a run of one file with these documents.
func newRun(t *testing.T, fs vfs.FS, number, seq uint64, ids ...int) *Run {
	t.Helper()
	name := fmt.Sprintf("%d.seg", number)
	out, err := fs.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := segment.NewWriter(out, segment.WriterOptions{FileNumber: number, Levels: 1, EPK: AppendEPK})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		k := keyOf(id)
		if err := w.Add(&k, &item.Version{Seq: seq, Body: bodyOf(id, seq)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := segment.Open(fs, name, segment.ReaderOptions{EPK: AppendEPK})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	return &Run{Files: []*File{{Reader: r, Name: name}}}
}

// TestShortScanDecodes: a scan decodes no body of a newer run that lies behind the few documents that it shows, and a long
// one comes to decode bodies together with their keys. Both show the newest version of each document.
func TestShortScanDecodes(t *testing.T) {
	const documents, apart = 400, 10
	fs := vfs.NewMem()
	var all []int
	newer := make([][]int, 2)
	for id := range documents {
		all = append(all, id)
		for i := range newer {
			if id%apart == 3*i {
				newer[i] = append(newer[i], id)
			}
		}
	}
	pool := arena.NewPool(1 << 20)
	table := memtable.New(pool, memtable.Range{}, 0, item.Seed{})
	t.Cleanup(table.Release)
	v := &Version{Active: table, Runs: []*Run{
		newRun(t, fs, 3, 3, newer[0]...), newRun(t, fs, 2, 2, newer[1]...), newRun(t, fs, 1, 1, all...),
	}}
	var c Cursor
	defer c.Close()
	c.Open(v, 3, false)
	k := keyOf(1)
	c.Seek(&k, true)
	for id := 1; id < documents; id++ {
		seq := uint64(1)
		for i := range newer {
			if id%apart == 3*i {
				seq = uint64(3 - i)
			}
		}
		if !c.Valid() {
			t.Fatalf("the scan ends before document %d: %v", id, c.Err())
		}
		if key, ver := c.Top(); string(key.ID) != fmt.Sprintf("%04d", id) || ver.Seq != seq || !bytes.Equal(ver.Body, bodyOf(id, seq)) {
			t.Fatalf("in place of document %d of sequence %d the scan shows %q, sequence %d, %d bytes", id, seq, key.ID, ver.Seq, len(ver.Body))
		}
		for i := range newer {
			s := &c.sources[1+i]
			switch behind := s.ok && string(s.key.ID) > fmt.Sprintf("%04d", id); {
			case behind && id < 2*apart && s.ver.Body != nil:
				t.Errorf("at document %d the body of %q in run %d is decoded", id, s.key.ID, i)
			case behind && id > documents/2 && s.ver.Body == nil:
				t.Errorf("at document %d the body of %q in run %d is still to be decoded", id, s.key.ID, i)
			}
		}
		c.Next()
	}
	if c.Valid() || c.Err() != nil {
		t.Errorf("behind the last document: %t, %v", c.Valid(), c.Err())
	}
}
