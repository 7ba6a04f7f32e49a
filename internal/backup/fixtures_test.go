package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// listener tells as lines what it gets of a stream.
type listener struct {
	lines []string
	fails string // the method that fails, with errTold
}

var errTold = errors.New("the listener fails")

func (l *listener) say(method, format string, args ...any) error {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
	if method == l.fails {
		return errTold
	}
	return nil
}

func (l *listener) Begin(c *Catalog) error {
	return l.say("Begin", "backup %x full %t up to %d of %d files", c.ID[:1], c.Full, c.Seq, len(c.Files))
}

func (l *listener) Record(s wal.Stream, highest uint64, payload []byte) error {
	var op logrecord.Operation
	if _, err := logrecord.Decode(payload, true, &op); err != nil {
		return err
	}
	return l.say("Record", "record of %d up to %d: %s", s, highest, op.Version.Body)
}

func (l *listener) File(f *File) error { return l.say("File", "file %d of %d bytes", f.Number, f.Size) }

func (l *listener) Data(p []byte) error { return l.say("Data", "data %s", p) }

// listen reads the streams of an input up to its end or to the first error.
func listen(ctx context.Context, r io.Reader, l *listener) (infos []Info, err error) {
	d := NewReader("input", r)
	for {
		info, err := d.Next(ctx, l)
		if err == io.EOF {
			return infos, nil
		}
		if err != nil {
			return infos, err
		}
		infos = append(infos, info)
	}
}

// corruptAt returns the offset of damage that an error tells of, -1 if it tells of none.
func corruptAt(err error) int64 {
	var corrupt *fault.CorruptionError
	if !errors.As(err, &corrupt) || corrupt.File != "input" {
		return -1
	}
	return corrupt.Offset
}

// catalogOf is the catalog of a full backup of a store with two partitions and files 1
// and 2, which both have; change may be nil.
func catalogOf(id byte, seq uint64, change func(c *Catalog)) *Catalog {
	store := manifest.ID{7}
	whole := []manifest.File{
		{Number: 1, Size: 5, FooterCRC: 0x11, Min: manifest.Bytes{}, Max: manifest.Bytes{0x20}},
		{Number: 2, Size: 3, FooterCRC: 0x22, Min: manifest.Bytes{0x20}, Max: manifest.Bytes{0xFF}},
	}
	c := &Catalog{
		ID: manifest.ID{id}, Full: true, Seq: seq, Time: 1_700_000_000_000,
		Store: manifest.Store{
			Head:       manifest.Head{StoreID: store, NextContainer: 2, NextPartition: 3, LastSeq: seq, SeqLimit: seq + 10},
			Containers: []manifest.Container{{ID: 1, Name: "c", PartitionKey: []string{"/k"}, Levels: 1, Kind: "json"}},
			Partitions: []manifest.Partition{
				{ID: 1, Container: 1, Min: manifest.Bytes{}, Max: manifest.Bytes{0x30}},
				{ID: 2, Container: 1, Min: manifest.Bytes{0x30}, Max: manifest.Bytes{0xFF}},
			},
		},
		Partitions: []manifest.Files{
			{StoreID: store, Partition: 1, FlushedSeq: 1, Floor: 9, Runs: []manifest.Run{{Files: whole}}},
			{StoreID: store, Partition: 2, FlushedSeq: 1, Floor: 9, Runs: []manifest.Run{{Files: whole[1:]}}},
		},
		Files: []File{{Number: 1, Size: 5, FooterCRC: 0x11, Carried: true}, {Number: 2, Size: 3, FooterCRC: 0x22, Carried: true}},
	}
	if change != nil {
		change(c)
	}
	return c
}

// record returns a log record of one version.
func record(seq uint64, body string) []byte {
	pk := partmap.String("key").Encoded()
	return logrecord.AppendCarried(nil, &item.Key{PK: pk, ID: []byte("id")}, &item.Version{Seq: seq, Modified: 1, Body: []byte(body)})
}

// oneVersion is a record of a stream.
type oneVersion struct {
	stream wal.Stream
	seq    uint64
	body   string
}

// streamOf writes a backup with records, and the bytes of its files: the number of the
// file as a digit.
func streamOf(t testing.TB, c *Catalog, records ...oneVersion) ([]byte, Info) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, c)
	must(t, err)
	for _, r := range records {
		must(t, w.Record(r.stream, r.seq, record(r.seq, r.body)))
	}
	for _, f := range c.Files {
		if f.Carried {
			must(t, w.Data(bytes.Repeat(fmt.Append(nil, f.Number%10), int(f.Size))))
		}
	}
	if w.Written() != int64(b.Len()) {
		t.Errorf("%d bytes written, it says %d", b.Len(), w.Written())
	}
	info, err := w.Close()
	must(t, err)
	if info.Bytes != int64(b.Len()) {
		t.Errorf("a stream of %d bytes, it says %d", b.Len(), info.Bytes)
	}
	return b.Bytes(), info
}

// fullAndNext are a full backup and an incremental one, which carries the new file 3 and not
// file 2.
func fullAndNext(t testing.TB) (full, next []byte, infos []Info) {
	t.Helper()
	full, first := streamOf(t, catalogOf(1, 5, nil), oneVersion{1, 4, "one"}, oneVersion{2, 5, "two"})
	c := catalogOf(2, 8, func(c *Catalog) {
		f := manifest.File{Number: 3, Size: 4, FooterCRC: 0x33, Min: manifest.Bytes{}, Max: manifest.Bytes{0x20}}
		c.Partitions[0].Runs[0].Files[0] = f
		c.Files[0], c.Files[1] = c.Files[1], File{Number: 3, Size: 4, FooterCRC: 0x33, Carried: true}
	})
	must(t, c.Follow(&first))
	next, second := streamOf(t, c, oneVersion{2, 8, "three"})
	return full, next, []Info{first, second}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
