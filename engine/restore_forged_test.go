package engine

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// copiedBackup keeps what a backup has.
type copiedBackup struct {
	catalog *backup.Catalog
	calls   []func(w *backup.Writer) error // that write it anew
}

func (c *copiedBackup) Begin(catalog *backup.Catalog) error { c.catalog = catalog; return nil }
func (c *copiedBackup) File(*backup.File) error             { return nil }

func (c *copiedBackup) Data(p []byte) error {
	p = bytes.Clone(p)
	c.calls = append(c.calls, func(w *backup.Writer) error { return w.Data(p) })
	return nil
}

func (c *copiedBackup) Record(s wal.Stream, highest uint64, payload []byte) error {
	payload = bytes.Clone(payload)
	c.calls = append(c.calls, func(w *backup.Writer) error { return w.Record(s, highest, payload) })
	return nil
}

// forgeBackup returns a full backup with another catalog, its checksums right.
func forgeBackup(t testing.TB, data []byte, change func(c *backup.Catalog)) []byte {
	t.Helper()
	var c copiedBackup
	must(t, second(backup.NewReader("backup", bytes.NewReader(data)).Next(context.Background(), &c)))
	change(c.catalog)
	var b bytes.Buffer
	w, err := backup.NewWriter(&b, c.catalog)
	must(t, err)
	for _, call := range c.calls {
		must(t, call(w))
	}
	must(t, second(w.Close()))
	return b.Bytes()
}

// TestRestoreOtherFile restores backups whose catalogs name other files than they
// carry.
func TestRestoreOtherFile(t *testing.T) {
	_, _, streams, _ := someBackups(t)
	for name, change := range map[string]func(c *backup.Catalog){
		"none": func(*backup.Catalog) {},
		"number": func(c *backup.Catalog) {
			c.Files[0].Number += 100
			c.Partitions[0].Runs[0].Files[0].Number += 100
		},
		"footer": func(c *backup.Catalog) {
			c.Files[0].FooterCRC++
			c.Partitions[0].Runs[0].Files[0].FooterCRC++
		},
		"store": func(c *backup.Catalog) {
			c.Store.StoreID[0]++
			c.Partitions[0].StoreID[0]++
		},
	} {
		mem := vfs.NewMem()
		err := backup.Restore(context.Background(), mem, "copy", bytes.NewReader(forgeBackup(t, streams[0], change)))
		if name == "none" {
			must(t, err)
			must(t, holds(below{mem, "copy"}, 8))
		} else if names := mem.Names(); !errors.Is(err, ErrCorrupt) || len(names) > 0 {
			t.Errorf("another %s: %v, files %v", name, err, names)
		}
	}
}
