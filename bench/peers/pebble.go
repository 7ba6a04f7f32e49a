package main

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

var pebbleStore = candidate{
	name:  "pebble",
	about: func() string { return moduleVersion("github.com/cockroachdb/pebble/v2") },
	settings: "newest format; memtables of 64 MiB, writes stop at 4; block cache 1 GiB, blocks of 32 KiB, Snappy, bloom filters of 10 bits on all levels; " +
		"L0 threshold 2, 1 to 2 compactions; loads in batches of 1 MiB",
	open: openPebble,
}

type pebbleDB struct {
	db    *pebble.DB
	write *pebble.WriteOptions
}

// pebbleSilence drops what is logged; a fatal error ends the process.
type pebbleSilence struct{}

func (pebbleSilence) Infof(string, ...any)              {}
func (pebbleSilence) Errorf(string, ...any)             {}
func (pebbleSilence) Fatalf(format string, args ...any) { pebble.DefaultLogger.Fatalf(format, args...) }

func openPebble(_ context.Context, dir string, m mode) (store, error) {
	cache := pebble.NewCache(m.blockCache())
	defer cache.Unref()
	options := pebble.Options{
		Cache:                       cache,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                64 << 20,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       2,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      pebbleSilence{},
	}
	for i := range options.Levels {
		options.Levels[i] = pebble.LevelOptions{BlockSize: 32 << 10, FilterPolicy: bloom.FilterPolicy(10)}
	}
	db, err := pebble.Open(dir, &options)
	if err != nil {
		return nil, err
	}
	s := &pebbleDB{db: db, write: pebble.NoSync}
	if m.Synced {
		s.write = pebble.Sync
	}
	return s, nil
}

func (s *pebbleDB) Upsert(_ context.Context, key partmap.Key, id string, doc []byte) error {
	k := joinKey(key, id)
	defer k.release()
	return s.db.Set(k.b, doc, s.write)
}

func (s *pebbleDB) Read(_ context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	k := joinKey(key, id)
	defer k.release()
	value, closer, err := s.db.Get(k.b)
	if err == pebble.ErrNotFound {
		return buf, measure.ErrNotFound
	}
	if err != nil {
		return buf, err
	}
	buf = append(buf, value...)
	return buf, closer.Close()
}

func (s *pebbleDB) Scan(_ context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	k := joinKey(key, from)
	defer k.release()
	end := keys.Get().(*keyBuffer)
	defer end.release()
	end.b = afterPrefix(end.b[:0], key.Encoded())
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: k.b, UpperBound: end.b})
	if err != nil {
		return err
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		visit(value)
		if n++; n == limit {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func (s *pebbleDB) Load(_ context.Context, docs iter.Seq[document]) error {
	batch := s.db.NewBatchWithSize(batchBytes + batchBytes/8)
	for doc := range docs {
		k := joinKey(doc.key, doc.id)
		err := batch.Set(k.b, doc.body, nil)
		k.release()
		if err == nil && batch.Len() >= batchBytes {
			err = errors.Join(batch.Commit(s.write), batch.Close())
			batch = s.db.NewBatchWithSize(batchBytes + batchBytes/8)
		}
		if err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return errors.Join(batch.Commit(s.write), batch.Close())
}

func (s *pebbleDB) Settle(ctx context.Context) (time.Duration, error) {
	if err := s.db.Flush(); err != nil {
		return 0, err
	}
	return atRest(ctx, func() bool {
		m := s.db.Metrics()
		return m.Flush.NumInProgress > 0 || m.Compact.NumInProgress > 0
	})
}

func (s *pebbleDB) Close() error { return s.db.Close() }
