package backup

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// TestCatalogCheck breaks what invariants 3 and 4 say, one after the other: neither a
// writer nor a reader takes such a catalog.
func TestCatalogCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(c *Catalog)
		want   string // "": right
	}{
		{"as it should be", nil, ""},
		{"a full backup with a parent", func(c *Catalog) { c.Parent = manifest.ID{9} }, "a full backup with a parent"},
		{"a full backup with a parent seq", func(c *Catalog) { c.ParentSeq = 1 }, "a full backup with a parent"},
		{"a full backup lacks a file", func(c *Catalog) { c.Files[1].Carried = false }, "file 2 is not in the stream of a full backup"},
		{"a log file", func(c *Catalog) { c.Store.LogFirst = 1 }, "names a log"},
		{"a closed log file", func(c *Catalog) { c.Store.LogClosed = []wal.Closed{{File: 1}} }, "names a log"},
		{"closed in order", func(c *Catalog) { c.Store.Clean = true }, "names a log"},
		{"a job", func(c *Catalog) {
			c.Store.NextPartition = 4
			c.Store.Intents = []manifest.Intent{{Container: 1, Kind: "split", Parents: []uint32{1}, Children: []manifest.Partition{{ID: 3}}}}
		}, "names a log"},
		{"a partition too few", func(c *Catalog) { c.Partitions = c.Partitions[:1] }, "1 manifests of partitions, the store has 2"},
		{"partitions out of order", func(c *Catalog) { c.Partitions[0], c.Partitions[1] = c.Partitions[1], c.Partitions[0] }, "in the place of partition 1"},
		{"a partition of another store", func(c *Catalog) { c.Partitions[1].StoreID[0]++ }, "in the place of partition 2"},
		{"the store's invariants", func(c *Catalog) { c.Store.Containers[0].Name = "" }, "container 1 has no name"},
		{"a partition's invariants", func(c *Catalog) { c.Partitions[0].FlushedSeq = item.MaxSeq + 1 }, "partition 1: sequences"},
		{"the sequence is the limit", func(c *Catalog) { c.Seq = c.Store.SeqLimit }, "sequence 15 is not below the limit 15"},
		{"a time of no year", func(c *Catalog) { c.Time = item.MaxTime + 1 }, "time "},
		{"flushed above the backup", func(c *Catalog) { c.Partitions[0].FlushedSeq = c.Seq + 1 }, "partition 1: flushed up to 6"},
		{"an obsolete file", func(c *Catalog) { c.Partitions[0].Obsolete = []uint64{4} }, "with 1 obsolete files"},
		{"a file that is not listed", func(c *Catalog) { c.Files = c.Files[:1] }, "file 2 is not as in the list"},
		{"a file that is not named", func(c *Catalog) { c.Files = append(c.Files, File{Number: 3, Size: 1, Carried: true}) }, "3 files, of which manifests name 2"},
		{"a file of another size", func(c *Catalog) { c.Files[0].Size++ }, "file 1 is not as in the list"},
		{"a file of another checksum", func(c *Catalog) { c.Files[0].FooterCRC++ }, "file 1 is not as in the list"},
		{"files out of order", func(c *Catalog) { c.Files[0], c.Files[1] = c.Files[1], c.Files[0] }, "file 1 is not in order"},
		{"a file twice", func(c *Catalog) { c.Files = append(c.Files, c.Files[1]) }, "file 2 is not in order"},
		{"a file without a number", func(c *Catalog) { c.Files[0].Number = 0 }, "file 0 is not in order"},
		{"a file of a number too high", func(c *Catalog) { c.Files[1].Number = manifest.MaxNumber + 1 }, "is not in order"},
		{"a file of no bytes", func(c *Catalog) { c.Files[0].Size = 0 }, "file 1 of 0 bytes"},
		{"files of more than all bytes", func(c *Catalog) { c.Files[0].Size, c.Partitions[0].Runs[0].Files[0].Size = maxTotal, maxTotal }, "file 2 of 3 bytes"},
		{"a file of bytes below nothing", func(c *Catalog) { c.Files[0].Size = -1 }, "file 1 of -1 bytes"},
	} {
		c := catalogOf(1, 5, test.change)
		err := c.Check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if _, writeErr := NewWriter(io.Discard, c); (writeErr == nil) != (err == nil) {
			t.Errorf("%s: the writer says %v", test.name, writeErr)
		}
	}
	c := catalogOf(1, 5, nil)
	c.Files[1].Carried = false
	if n := c.CarriedBytes(); n != 5 {
		t.Errorf("%d bytes are carried", n)
	}
}

// TestFollow: what an incremental backup may come after, when it is made and when it is
// read.
func TestFollow(t *testing.T) {
	_, parent := streamOf(t, catalogOf(1, 5, nil))
	for _, test := range []struct {
		name   string
		change func(parent *Info, c *Catalog)
		want   string // the files that are carried, or the refusal
	}{
		{"the same files", func(*Info, *Catalog) {}, ""},
		{"the same sequence", func(_ *Info, c *Catalog) { c.Seq = 5 }, ""},
		{"another number", func(p *Info, _ *Catalog) { p.Files[0].Number = 9 }, "1"},
		{"another size", func(p *Info, _ *Catalog) { p.Files[1].Size++ }, "2"},
		{"another checksum", func(p *Info, _ *Catalog) { p.Files[0].FooterCRC++ }, "1"},
		{"no files", func(p *Info, _ *Catalog) { p.Files = nil }, "12"},
		{"a file that a parent of the parent carried", func(p *Info, _ *Catalog) { p.Files[0].Carried = false }, ""},
		{"a foreign store", func(p *Info, _ *Catalog) { p.Store = strings.Repeat("ab", 16) }, "it is of store abab"},
		{"the future", func(p *Info, _ *Catalog) { p.Seq, p.NextSeq = 9, 10 }, "it has sequence 9, the store 8"},
		{"the future, with a replicated container", func(p *Info, _ *Catalog) { p.Seq, p.NextSeq = 30, 10 }, "it has sequence 30, the store 8"},
		{"a replicated container has left", func(p *Info, _ *Catalog) { p.Seq, p.NextSeq = 30, 9 }, ""},
		{"a replicated container is there", func(p *Info, c *Catalog) { p.Seq, p.NextSeq, c.Store.LastSeq = 8, 4, 3 }, ""},
		{"the description is of an older program", func(p *Info, _ *Catalog) { p.Seq, p.NextSeq = 8, 0 }, ""},
		{"the future of an older program", func(p *Info, _ *Catalog) { p.Seq, p.NextSeq = 9, 0 }, "it has sequence 9, the store 8"},
		{"the backup is of an older program", func(p *Info, c *Catalog) { p.Seq, p.NextSeq, c.Store.LastSeq = 8, 9, 3 }, ""},
		{"no id", func(p *Info, _ *Catalog) { p.ID = "x" }, "its id"},
		{"an id that is too long", func(p *Info, _ *Catalog) { p.ID += "00" }, "its id"},
	} {
		p, c := parent, catalogOf(2, 8, nil)
		p.Files = append([]File(nil), parent.Files...)
		test.change(&p, c)
		err := c.Follow(&p)
		got := ""
		for _, f := range c.Files {
			if f.Carried {
				got += string('0' + byte(f.Number))
			}
		}
		switch {
		case err == nil && (got != test.want || c.Full || c.Parent != manifest.ID{1} || c.ParentSeq != p.Seq):
			t.Errorf("%s: carries %q, %+v", test.name, got, c)
		case err != nil && (!errors.Is(err, ErrParent) || !strings.Contains(err.Error(), test.want) || test.want == ""):
			t.Errorf("%s: %v", test.name, err)
		case err == nil:
			must(t, c.Check())
		}
	}
}

// TestChainRefused reads streams behind others that they do not follow. Nothing of them is
// handed on.
func TestChainRefused(t *testing.T) {
	full, next, infos := fullAndNext(t)
	after := func(seq uint64, change func(c *Catalog)) []byte {
		c := catalogOf(2, seq, nil)
		must(t, c.Follow(&infos[0]))
		if change != nil {
			change(c)
		}
		b, _ := streamOf(t, c)
		return b
	}
	foreign := func(c *Catalog) {
		c.Store.StoreID[0]++
		c.Partitions[0].StoreID[0]++
		c.Partitions[1].StoreID[0]++
	}
	for _, test := range []struct {
		name    string
		streams [][]byte
		want    string // "": right
		begun   int    // streams that are handed on
	}{
		{"as it should be", [][]byte{full, next}, "", 2},
		{"an incremental one first", [][]byte{next}, "", 1}, // the handler decides
		{"two of one parent, the first", [][]byte{full, after(6, nil)}, "", 2},
		{"two of one parent behind each other", [][]byte{full, after(6, nil), next}, "it follows 01", 2},
		{"a full one behind a full one", [][]byte{full, full}, "it is a full one", 1},
		{"the same twice", [][]byte{full, next, next}, "it follows 01", 2},
		{"one is missing", [][]byte{next, full}, "it is a full one", 1},
		{"another parent", [][]byte{full, after(8, func(c *Catalog) { c.Parent[5]++ })}, "it follows 01", 1},
		{"another sequence of the parent", [][]byte{full, after(8, func(c *Catalog) { c.ParentSeq++ })}, "at sequence 6", 1},
		{"a foreign store", [][]byte{full, after(8, foreign)}, "it is of store 08", 1},
		{"a file that nobody has", [][]byte{full, after(8, func(c *Catalog) {
			c.Files[0].Size, c.Partitions[0].Runs[0].Files[0].Size = 6, 6
		})}, "file 1 is in neither of them", 1},
	} {
		var l listener
		_, err := listen(t.Context(), bytes.NewReader(bytes.Join(test.streams, nil)), &l)
		begun := 0
		for _, line := range l.lines {
			if strings.HasPrefix(line, "backup ") {
				begun++
			}
		}
		if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, ErrParent) || !strings.Contains(err.Error(), test.want)) || begun != test.begun {
			t.Errorf("%s: %d streams handed on, %v", test.name, begun, err)
		}
	}
}
