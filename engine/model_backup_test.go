package engine

import (
	"bytes"
	"context"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/vfs"
)

// checkpoint opens a checkpoint and compares it with what is there.
func (m *model) checkpoint() {
	mem := vfs.NewMem()
	m.db.opts.checkpointRoot = func(string) (vfs.FS, error) { return mem, nil }
	_, err := m.db.Checkpoint(context.Background(), "copy")
	must(m.t, err)
	opts := m.opts
	opts.fs = mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
	m.compareCopy("checkpoint", &opts)
}

// backup makes a backup, full or after the last one, of the store or of one that
// is open read-only beside it, restores it and compares it with what is there.
func (m *model) backup() {
	ctx := context.Background()
	from := m.db
	if m.rng.IntN(3) == 0 {
		opts := m.opts
		opts.ReadOnly = true
		var err error
		from, err = Open(ctx, "model", &opts)
		must(m.t, err)
		defer from.Close()
	}
	o := new(BackupOptions)
	if n := len(m.backups); n > 0 && n < 4 && m.rng.IntN(4) > 0 {
		o.Since = &m.lastBackup
	} else {
		m.backups = nil
	}
	var stream bytes.Buffer
	info, err := from.Backup(ctx, &stream, o)
	must(m.t, err)
	m.backups, m.lastBackup = append(m.backups, stream.Bytes()), info
	mem := vfs.NewMem()
	must(m.t, backup.Restore(ctx, mem, "copy", bytes.NewReader(bytes.Join(m.backups, nil))))
	opts := m.opts
	opts.fs = below{mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), "copy"}
	m.compareCopy("backup", &opts)
}

// compareCopy opens a copy of the store and compares it with what is there.
func (m *model) compareCopy(what string, opts *Options) {
	copied, err := Open(context.Background(), "copy", opts)
	must(m.t, err)
	defer copied.Close()
	for name, items := range m.items {
		c, err := copied.Container(name)
		must(m.t, err)
		n := 0
		for it, err := range c.ScanAll(context.Background(), nil) {
			must(m.t, err)
			w, ok := items[itemID{name, it.Key, it.ID}]
			m.compare(what, it, nil, w, ok)
			n++
		}
		if n != len(items) {
			m.t.Fatalf("%s of %s: %d items, want %d", what, name, n, len(items))
		}
	}
	checkVerified(m.t, copied)
}
