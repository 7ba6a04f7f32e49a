package backup

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// chain returns a full backup of a store without files and two incremental ones, each of
// one record with its number as text.
func chain(t *testing.T, store byte) (streams [][]byte) {
	t.Helper()
	var since *Info
	for i := range 3 {
		c := Catalog{
			ID: manifest.ID{store, byte(i)}, Full: true, Seq: uint64(5 + i),
			Store: manifest.Store{Head: manifest.Head{StoreID: manifest.ID{store}, SeqLimit: 10, NextPartition: 2}},
		}
		if since != nil {
			if err := c.Follow(since); err != nil {
				t.Fatal(err)
			}
		}
		var b bytes.Buffer
		w, err := NewWriter(&b, &c)
		if err != nil {
			t.Fatal(err)
		}
		if err = w.Record(1, c.Seq, record(c.Seq, string(rune('0'+i)))); err != nil {
			t.Fatal(err)
		}
		info, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		streams, since = append(streams, b.Bytes()), &info
	}
	return streams
}

// TestRestoreRecords: the log of a restored store has the records of the last backup, and
// only these.
func TestRestoreRecords(t *testing.T) {
	streams := chain(t, 1)
	for n := 1; n <= len(streams); n++ {
		mem := vfs.NewMem()
		if err := Restore(t.Context(), mem, "copy", bytes.NewReader(bytes.Join(streams[:n], nil))); err != nil {
			t.Fatal(err)
		}
		image := mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
		m, err := manifest.LoadNewest[manifest.Store](image, "copy", manifest.StoreKind)
		if err != nil {
			t.Fatal(err)
		}
		var payloads [][]byte
		state := wal.State{First: m.LogFirst, Closed: m.LogClosed}
		_, err = wal.Recover(t.Context(), image, "copy/"+manifest.LogDir, state, wal.Options{StoreID: m.StoreID}, func(r *wal.Record) error {
			payloads = append(payloads, bytes.Clone(r.Payload))
			return nil
		})
		if want := record(uint64(4+n), string(rune('0'+n-1))); err != nil || len(payloads) != 1 || !bytes.Equal(payloads[0], want) {
			t.Errorf("%d backups: records %q, %v; want %q", n, payloads, err, want)
		}
	}
}

// TestRestoreOrder: backups are restored in their order only, and nothing is left of
// another.
func TestRestoreOrder(t *testing.T) {
	streams, others := chain(t, 1), chain(t, 2)
	for name, input := range map[string][][]byte{
		"without the full one":  {streams[1]},
		"one left out":          {streams[0], streams[2]},
		"out of order":          {streams[0], streams[2], streams[1]},
		"twice":                 {streams[0], streams[1], streams[1]},
		"two full ones":         {streams[0], others[0]},
		"that of another store": {others[0], streams[1]},
	} {
		mem := vfs.NewMem()
		err := Restore(t.Context(), mem, "copy", bytes.NewReader(bytes.Join(input, nil)))
		if !errors.Is(err, ErrParent) || len(mem.Names()) > 0 {
			t.Errorf("%s: %v, left %v", name, err, mem.Names())
		}
	}
}

// TestRestoreRefused: a restore leaves alone what is there, and makes nothing of an empty
// input.
func TestRestoreRefused(t *testing.T) {
	full := chain(t, 1)[0]
	for name, test := range map[string]struct {
		there string
		input []byte
		want  error
	}{
		"a store":         {"copy/file", full, fault.ErrExists},
		"another restore": {"copy.restoring/file", full, fault.ErrExists},
		"an empty input":  {"other/file", nil, fault.ErrCorrupt},
	} {
		mem := vfs.NewMem()
		dir, _, _ := strings.Cut(test.there, "/")
		if err := errors.Join(mem.Mkdir(dir), mem.WriteFile(test.there, []byte("text"))); err != nil {
			t.Fatal(err)
		}
		err := Restore(t.Context(), mem, "copy", bytes.NewReader(test.input))
		if names := mem.Names(); !errors.Is(err, test.want) || strings.Join(names, " ") != test.there {
			t.Errorf("%s: %v, files %v", name, err, names)
		}
	}
}
