package main

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

const (
	cleavePartitions = 4
	cleaveBudget     = 256 << 20
	cleaveContainer  = "docs"
	cleaveScanCache  = 1 << 30 // as the block caches of peers
)

// cleaveVariants are Cleave with both kinds of containers, compressed and not.
func cleaveVariants() []candidate {
	cached := func(name string, scanCache int64, kind engine.ContainerKind, compression engine.Compression, settings string) candidate {
		return candidate{
			name: name, ours: true, writesOnly: kind == engine.Opaque,
			about:    func() string { return "cleave " + revision() },
			settings: settings + "; 4 partitions, memory budget 256 MiB, loads in batches of 1 MiB",
			open: func(ctx context.Context, dir string, m mode) (store, error) {
				return openCleave(ctx, dir, m, scanCache, engine.ContainerDef{
					PartitionKey: []string{m.KeyPath}, Kind: kind, Compression: compression, MinPartitions: cleavePartitions,
				})
			},
		}
	}
	variant := func(name string, kind engine.ContainerKind, compression engine.Compression, settings string) candidate {
		return cached(name, 0, kind, compression, settings)
	}
	inPlace := func(c candidate) candidate {
		c.scansOnly = true
		open := c.open
		c.open = func(ctx context.Context, dir string, m mode) (store, error) {
			s, err := open(ctx, dir, m)
			if s, ok := s.(cleaveJSON); ok {
				s.inPlace = true
				return s, nil
			}
			return s, err
		}
		return c
	}
	return []candidate{
		variant("cleave", engine.JSON, engine.FastCompression, "JSON container, compression fast"),
		variant("cleave-none", engine.JSON, engine.NoCompression, "JSON container, not compressed"),
		variant("cleave-opaque", engine.Opaque, engine.FastCompression, "opaque container, compression fast; loads are single puts"),
		variant("cleave-opaque-none", engine.Opaque, engine.NoCompression, "opaque container, not compressed; loads are single puts"),
		inPlace(variant("cleave-in-place", engine.JSON, engine.NoCompression, "JSON container, not compressed; scans with InPlace")),
		inPlace(cached("cleave-cache", cleaveScanCache, engine.JSON, engine.FastCompression, "JSON container, compression fast; scans with InPlace, scan cache 1 GiB")),
	}
}

func openCleave(ctx context.Context, dir string, m mode, scanCache int64, def engine.ContainerDef) (store, error) {
	options := engine.Options{MemoryBudget: cleaveBudget, ScanCacheBytes: scanCache, Durability: engine.Buffered}
	if m.Synced {
		options.Durability = engine.Synced
	}
	db, err := engine.Open(ctx, dir, &options)
	if err != nil {
		return nil, err
	}
	c, err := db.Container(cleaveContainer)
	if errors.Is(err, engine.ErrNoContainer) {
		if def.Kind == engine.Opaque {
			def.PartitionKey = nil
		}
		c, err = db.CreateContainer(ctx, cleaveContainer, def)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := cleaveStore{db: db, c: c}
	if def.Kind == engine.Opaque {
		return cleaveOpaque{s}, nil
	}
	return cleaveJSON{s}, nil
}

// cleaveStore is what both kinds of containers share.
type cleaveStore struct {
	db      *engine.DB
	c       *engine.Container
	inPlace bool // for scans
}

func (s cleaveStore) Read(ctx context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	it, err := s.c.ReadInto(ctx, key, id, buf)
	if errors.Is(err, engine.ErrNotFound) {
		err = measure.ErrNotFound
	}
	return it.Body, err
}

func (s cleaveStore) Scan(ctx context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	for it, err := range s.c.Scan(ctx, key, engine.IDRange{From: from}, &engine.ScanOptions{Limit: limit, Borrow: true, InPlace: s.inPlace}) {
		if err != nil {
			return err
		}
		visit(it.Body)
	}
	return nil
}

func (s cleaveStore) Settle(ctx context.Context) (time.Duration, error) { return 0, s.db.Compact(ctx) }
func (s cleaveStore) Close() error                                      { return s.db.Close() }

type cleaveJSON struct{ cleaveStore }

func (s cleaveJSON) Upsert(ctx context.Context, _ partmap.Key, _ string, doc []byte) error {
	_, err := s.c.Upsert(ctx, doc, nil)
	return err
}

func (s cleaveJSON) Load(ctx context.Context, docs iter.Seq[document]) error {
	_, err := s.c.Load(ctx, func(yield func([]byte, error) bool) {
		for doc := range docs {
			if !yield(doc.body, nil) {
				return
			}
		}
	}, &engine.LoadOptions{BatchBytes: batchBytes})
	return err
}

type cleaveOpaque struct{ cleaveStore }

func (s cleaveOpaque) Upsert(ctx context.Context, key partmap.Key, id string, doc []byte) error {
	_, err := s.c.Put(ctx, key, id, doc, nil)
	return err
}

func (s cleaveOpaque) Load(ctx context.Context, docs iter.Seq[document]) error {
	for doc := range docs {
		if _, err := s.c.Put(ctx, doc.key, doc.id, doc.body, nil); err != nil {
			return err
		}
	}
	return nil
}
