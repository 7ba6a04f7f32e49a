package main

import (
	"bytes"
	"context"
	"iter"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

var bboltStore = candidate{
	name:  "bbolt",
	about: func() string { return moduleVersion("go.etcd.io/bbolt") },
	settings: "one bucket; freelist as a map, not synced; initial mapping 8 GiB; NoSync when buffered; " +
		"DB.Batch of as many as there are goroutines, at most 1 ms late, for synced puts; loads in transactions of 1 MiB",
	open: openBbolt,
}

var bboltBucket = []byte("docs")

type bboltDB struct {
	db    *bbolt.DB
	group bool // put through DB.Batch
}

func openBbolt(_ context.Context, dir string, m mode) (store, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bbolt.db"), 0o600, &bbolt.Options{
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: 8 << 30,
		NoSync:          !m.Synced,
	})
	if err != nil {
		return nil, err
	}
	db.MaxBatchSize, db.MaxBatchDelay = m.Workers, time.Millisecond
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bboltBucket)
		return err
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return bboltDB{db: db, group: m.Synced && m.Workers > 1}, nil
}

func (s bboltDB) Upsert(_ context.Context, key partmap.Key, id string, doc []byte) error {
	k := joinKey(key, id)
	defer k.release()
	put := func(tx *bbolt.Tx) error { return tx.Bucket(bboltBucket).Put(k.b, doc) }
	if s.group {
		return s.db.Batch(put)
	}
	return s.db.Update(put)
}

func (s bboltDB) Read(_ context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	k := joinKey(key, id)
	defer k.release()
	tx, err := s.db.Begin(false)
	if err != nil {
		return buf, err
	}
	value := tx.Bucket(bboltBucket).Get(k.b)
	buf = append(buf, value...)
	if err = tx.Rollback(); err == nil && value == nil {
		err = measure.ErrNotFound
	}
	return buf, err
}

func (s bboltDB) Scan(_ context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	k := joinKey(key, from)
	defer k.release()
	tx, err := s.db.Begin(false)
	if err != nil {
		return err
	}
	prefix := key.Encoded()
	c := tx.Bucket(bboltBucket).Cursor()
	n := 0
	for at, value := c.Seek(k.b); bytes.HasPrefix(at, prefix); at, value = c.Next() {
		visit(value)
		if n++; n == limit {
			break
		}
	}
	return tx.Rollback()
}

func (s bboltDB) Load(_ context.Context, docs iter.Seq[document]) error {
	for batch := range batches(docs) {
		err := s.db.Update(func(tx *bbolt.Tx) error {
			bucket := tx.Bucket(bboltBucket)
			for _, p := range batch {
				if err := bucket.Put(p.key, p.value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s bboltDB) Settle(context.Context) (time.Duration, error) { return 0, s.db.Sync() }
func (s bboltDB) Close() error                                  { return s.db.Close() }
