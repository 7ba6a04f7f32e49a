package main

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

var badgerStore = candidate{
	name:  "badger",
	about: func() string { return moduleVersion("github.com/dgraph-io/badger/v4") },
	settings: "zstd 1, blocks of 4 KiB, block cache 1 GiB, index cache 256 MiB; 5 memtables of 64 MiB, 2 compactors; values in the LSM tree; " +
		"no conflict detection; loads by one WriteBatch",
	open: openBadger,
}

type badgerDB struct{ db *badger.DB }

func openBadger(_ context.Context, dir string, m mode) (store, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).
		WithLogger(nil).
		WithSyncWrites(m.Synced).
		WithCompression(options.ZSTD).
		WithZSTDCompressionLevel(1).
		WithBlockSize(4 << 10).
		WithBlockCacheSize(m.blockCache()).
		WithIndexCacheSize(256 << 20).
		WithMemTableSize(64 << 20).
		WithNumMemtables(5).
		WithNumCompactors(2).
		WithValueThreshold(1 << 20).
		WithDetectConflicts(false))
	if err != nil {
		return nil, err
	}
	return badgerDB{db}, nil
}

func (s badgerDB) Upsert(_ context.Context, key partmap.Key, id string, doc []byte) error {
	k := joinKey(key, id)
	defer k.release()
	return s.db.Update(func(txn *badger.Txn) error { return txn.Set(k.b, doc) })
}

func (s badgerDB) Read(_ context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	k := joinKey(key, id)
	defer k.release()
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	item, err := txn.Get(k.b)
	if err == badger.ErrKeyNotFound {
		return buf, measure.ErrNotFound
	}
	if err != nil {
		return buf, err
	}
	err = item.Value(func(value []byte) error {
		buf = append(buf, value...)
		return nil
	})
	return buf, err
}

func (s badgerDB) Scan(_ context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	k := joinKey(key, from)
	defer k.release()
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	o := badger.DefaultIteratorOptions
	o.Prefix = key.Encoded()
	if limit > 0 {
		o.PrefetchSize = min(o.PrefetchSize, limit)
	}
	it := txn.NewIterator(o)
	defer it.Close()
	n := 0
	for it.Seek(k.b); it.Valid(); it.Next() {
		if err := it.Item().Value(func(value []byte) error { visit(value); return nil }); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return nil
}

func (s badgerDB) Load(_ context.Context, docs iter.Seq[document]) error {
	batch := s.db.NewWriteBatch()
	defer batch.Cancel()
	for doc := range docs {
		// The batch keeps both until it commits, which it does on its own.
		if err := batch.Set(appendKey(nil, doc.key, doc.id), bytes.Clone(doc.body)); err != nil {
			return err
		}
	}
	return batch.Flush()
}

// Settle waits until the process is idle: Badger does not tell what it does in
// the background. Memtables stay in memory, as it has no call to flush them.
func (s badgerDB) Settle(ctx context.Context) (time.Duration, error) {
	if err := s.db.Sync(); err != nil {
		return 0, err
	}
	quiet, err := atRest(ctx, usesProcessor())
	return quiet, errors.Join(err, ctx.Err())
}

func (s badgerDB) Close() error { return s.db.Close() }
