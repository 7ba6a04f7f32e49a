package backup

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// keeper keeps the records of a stream.
type keeper struct{ records []string }

func (*keeper) Begin(*Catalog) error { return nil }
func (*keeper) File(*File) error     { return nil }
func (*keeper) Data([]byte) error    { return nil }

func (k *keeper) Record(_ wal.Stream, _ uint64, payload []byte) error {
	var op logrecord.Operation
	if _, err := logrecord.Decode(payload, true, &op); err != nil {
		return err
	}
	k.records = append(k.records, string(op.Version.Body))
	return nil
}

// record returns a log record of one version.
func record(seq uint64, body string) []byte {
	pk := partmap.String("key").Encoded()
	return logrecord.AppendCarried(nil, &item.Key{PK: pk, ID: []byte("id")}, &item.Version{Seq: seq, Modified: 1, Body: []byte(body)})
}

// TestReadRecords damages and breaks off each record of a stream: what is wrong
// is told as it was met, and a record that is not right is not handed on.
func TestReadRecords(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, &Catalog{ID: manifest.ID{1}, Full: true, Seq: 5, Store: manifest.Store{Head: manifest.Head{SeqLimit: 10, NextPartition: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	var starts []int64
	texts := []string{"record one", "record two", "record three"}
	for _, text := range texts {
		starts = append(starts, w.Written())
		if err = w.Record(1, 5, record(5, text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = w.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(r io.Reader) ([]string, error) {
		k := new(keeper)
		_, err := NewReader("input", r).Next(t.Context(), k)
		return k.records, err
	}
	if got, err := read(bytes.NewReader(b.Bytes())); err != nil || strings.Join(got, " ") != "record one record two record three" {
		t.Fatalf("read %q: %v", got, err)
	}
	for i, start := range starts {
		damaged := bytes.Clone(b.Bytes())
		damaged[bytes.Index(damaged, []byte(texts[i]))] ^= 1
		got, err := read(bytes.NewReader(damaged))
		var corrupt *fault.CorruptionError
		if !errors.As(err, &corrupt) || corrupt.Offset != start || len(got) != i {
			t.Errorf("record %d damaged: read %q, %v; want damage at %d", i, got, err, start)
		}
		broken := errors.New("the tape is torn")
		got, err = read(io.MultiReader(bytes.NewReader(b.Bytes()[:start+blockBytes+3]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || len(got) != i {
			t.Errorf("record %d broken off: read %q, %v", i, got, err)
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
		w, err := NewWriter(&b, &Catalog{ID: manifest.ID{1}, Full: true, Seq: 7, Store: manifest.Store{Head: manifest.Head{SeqLimit: 10, NextPartition: 2}}})
		if err != nil {
			t.Fatal(err)
		}
		start := w.Written()
		if err = w.Record(1, 5, payload); err != nil {
			t.Fatal(err)
		}
		if _, err = w.Close(); err != nil {
			t.Fatal(err)
		}
		k := new(keeper)
		_, err = NewReader("input", &b).Next(t.Context(), k)
		var corrupt *fault.CorruptionError
		if !errors.As(err, &corrupt) || corrupt.Offset != start || len(k.records) != 0 {
			t.Errorf("%s: read %q, %v; want damage at %d", what, k.records, err, start)
		}
	}
}
