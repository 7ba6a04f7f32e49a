package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// damages spoils files of a closed store, one a time, opens it, reads all lanes
// and writes to it. An error is right, and so is the whole answer; a wrong answer
// is not, nor is a call that does not end.
func damages(ctx context.Context, n int, seed uint64) (result, error) {
	r := result{medium: "directory", end: "damage"}
	root, err := os.MkdirTemp("", "torture-damage-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(root)
	whole := filepath.Join(root, "whole")
	is, err := makeStore(ctx, whole, seed)
	if err != nil {
		return r, err
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	spoiled := filepath.Join(root, "spoiled")
	for range n {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if err := errors.Join(os.RemoveAll(spoiled), os.CopyFS(spoiled, os.DirFS(whole))); err != nil {
			return r, err
		}
		what, err := spoil(spoiled, rng)
		if err != nil {
			return r, err
		}
		r.cycles++
		one, cancel := context.WithTimeout(ctx, time.Minute)
		if err := useSpoiled(one, spoiled, is); err != nil {
			r.violations = append(r.violations, fmt.Sprintf("%s: %v", what, err))
		}
		cancel()
	}
	return r, nil
}

// makeStore makes a store whose lanes have some hundred operations, and returns
// their models.
func makeStore(ctx context.Context, dir string, seed uint64) (models, error) {
	o := settings[0].opened(true)
	db, err := engine.Open(ctx, dir, &o)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}, Index: engine.IndexAll(), MinPartitions: 3})
	if err != nil {
		return nil, err
	}
	v := victim{db: db, c: c}
	is := newModels(settings[0].shape, seed)
	for _, l := range is {
		for range 150 {
			op := l.next()
			if err := v.do(ctx, l, op); err != nil {
				return nil, err
			}
			l.apply(op)
			if l.n == 75 {
				if err := db.Flush(ctx); err != nil {
					return nil, err
				}
			}
		}
	}
	return is, db.Close()
}

// spoil changes one file of a store.
func spoil(dir string, rng *rand.Rand) (what string, err error) {
	var files []string
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "LOCK" {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	name := files[rng.IntN(len(files))]
	b, err := os.ReadFile(name)
	if err != nil || len(b) == 0 {
		return "nothing", err
	}
	at := rng.IntN(len(b))
	switch rng.IntN(5) {
	case 0, 1:
		b[at] ^= 1 << rng.IntN(8)
		what = "a bit flipped"
	case 2:
		clear(b[at&^511 : min(at&^511+512, len(b))])
		what = "a sector of zeros"
	case 3:
		b, what = b[:at], "cut"
	default:
		b, what = append(b, make([]byte, 100)...), "100 bytes longer"
	}
	rel, _ := filepath.Rel(dir, name)
	return fmt.Sprintf("%s at %d of %s", what, at, rel), os.WriteFile(name, b, 0o600)
}

// typed says whether an error is one that damage may cause.
func typed(err error) bool {
	for _, e := range []error{engine.ErrCorrupt, engine.ErrMissing, engine.ErrTooNew, engine.ErrNotStore} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, new(*engine.IOError))
}

// useSpoiled opens a damaged store, reads it and writes to it.
func useSpoiled(ctx context.Context, dir string, is models) error {
	db, err := engine.Open(ctx, dir, &settings[0].options)
	if err != nil {
		if typed(err) {
			return nil
		}
		return fmt.Errorf("open: %w", err)
	}
	defer db.Close()
	c, err := db.Container("c")
	if err != nil {
		return fmt.Errorf("container: %w", err)
	}
	for _, l := range is {
		f, err := readLane(ctx, c, l)
		if err != nil {
			if !typed(err) {
				return fmt.Errorf("scan: %w", err)
			}
			continue
		}
		if !f.is(l) {
			return fmt.Errorf("wrong answer, lane %d: %s", l.number, difference(f.docs, l.docs))
		}
	}
	for _, l := range is {
		for range 5 {
			doc := l.document(change{id: fmt.Sprintf("new%d", l.number), count: 1, size: 300})
			if _, err := c.Upsert(ctx, []byte(doc), nil); err != nil && !typed(err) {
				return fmt.Errorf("write: %w", err)
			}
		}
	}
	if err := db.Flush(ctx); err != nil && !typed(err) {
		return fmt.Errorf("flush: %w", err)
	}
	if err := db.Settle(ctx); err != nil && !typed(err) {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}
