package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/dgraph-io/badger/v4"
)

// readBadger reads a directory that no process has open, or a backup. Badger does not let
// one process read what another one writes: the newest documents are in the memory of the
// writer. Of a store in use take a backup (DB.Backup), which has one moment.
func (c *config) readBadger(ctx context.Context, w *printer) error {
	info, err := os.Stat(c.source)
	if err != nil {
		return err
	}
	dir, backup := c.source, !info.IsDir()
	if backup && info.Size() == 0 {
		return fmt.Errorf("%s: the file is truncated: it is empty", c.source)
	}
	if backup {
		if dir, err = os.MkdirTemp("", "cleave-migrate"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	options := badger.DefaultOptions(dir).WithLogger(nil).WithReadOnly(!backup)
	db, err := badger.Open(options)
	if err != nil {
		return fmt.Errorf("%s: %w. A store in use cannot be read beside its process: have that process write a backup (DB.Backup), and name the backup", c.source, err)
	}
	defer db.Close()
	if backup {
		file, err := os.Open(c.source)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := db.Load(interruptible{ctx, file}, 16); err != nil {
			return fmt.Errorf("%s: no backup of Badger: %w", c.source, err)
		}
	}
	return db.View(func(tx *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix = []byte(c.prefix)
		it := tx.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			item := it.Item()
			key := item.Key()
			at := fmt.Sprintf("key %q", key)
			value, err := item.ValueCopy(nil)
			if err != nil {
				err = w.print(at, nil, err)
			} else {
				err = c.pair(w, at, bytes.TrimPrefix(key, o.Prefix), value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
