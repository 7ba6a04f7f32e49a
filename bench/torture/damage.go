package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
)

const (
	damagesOfOne = 3   // damages to one copy of a store, at most
	damagedUses  = 300 // copies of one store
	damagedLives = 4   // one copy of so many is written to, reshaped and opened again
)

// closedStore is a store with all its bytes, to make copies of.
type closedStore struct {
	files  map[string][]byte
	names  []string
	models models
	places []string // directory of the physical partition of each lane
}

// damages spoils files of closed stores, opens them, reads all lanes and, of some,
// writes to them, reshapes and opens them again. In the lanes whose physical
// partition is damaged an error is right, and so is the whole answer; all other
// lanes must be right and take writes.
func damages(ctx context.Context, n int, seed uint64, progress func(int)) (result, error) {
	r := result{medium: "directory", end: "damage"}
	root, err := os.MkdirTemp("", "torture-damage-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(root)
	rng := rand.New(rand.NewPCG(seed, 7))
	var whole *closedStore
	spoiled := filepath.Join(root, "spoiled")
	for use := 0; r.cycles < n; use++ {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if use%damagedUses == 0 {
			if whole, err = makeStore(ctx, filepath.Join(root, "whole"), rng); err != nil {
				return r, err
			}
		}
		what, places, count := whole.spoil(rng)
		if err := errors.Join(os.RemoveAll(spoiled), what.write(spoiled)); err != nil {
			return r, err
		}
		r.cycles += count
		progress(len(r.violations))
		one, cancel := context.WithTimeout(ctx, 2*time.Minute)
		err := whole.use(one, spoiled, places, use%damagedLives == 0)
		cancel()
		if err != nil && ctx.Err() == nil {
			kept := filepath.Join(os.TempDir(), fmt.Sprintf("torture-kept-damage-%d-%d", seed, use))
			if len(r.violations) < 10 {
				_ = what.write(kept)
			}
			r.violations = append(r.violations, fmt.Sprintf("%s: %v\n  kept: %s", what.what, err, kept))
		}
	}
	return r, nil
}

// makeStore makes a store whose lanes have some hundred operations.
func makeStore(ctx context.Context, dir string, rng *rand.Rand) (*closedStore, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	o := settings[0].opened(true)
	o.MaxPartitionBytes = -1
	db, err := engine.Open(ctx, dir, &o)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	cs, err := openContainers(ctx, db, withPartitions(3))
	if err != nil {
		return nil, err
	}
	s := &closedStore{files: make(map[string][]byte), models: newModels(settings[0].shape, rng.Uint64())}
	for n := range 150 {
		for _, l := range s.models {
			op := l.next()
			if err := cs.do(ctx, l, op); err != nil {
				return nil, err
			}
			l.apply(op)
		}
		if n%50 == 40 {
			if err := db.Flush(ctx); err != nil {
				return nil, err
			}
		}
	}
	for _, l := range s.models {
		c, err := db.Container(map[bool]string{false: "c", true: "o"}[l.opaque])
		if err != nil {
			return nil, err
		}
		epk := l.key().EPK()
		for _, p := range c.Partitions() {
			if at := epk.String(); p.Min <= at && at < p.Max {
				s.places = append(s.places, fmt.Sprintf("p/%06d/", p.ID))
			}
		}
	}
	if len(s.places) != len(s.models) {
		return nil, fmt.Errorf("%d lanes lie in %d partitions", len(s.models), len(s.places))
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		s.names = append(s.names, filepath.ToSlash(rel))
		s.files[filepath.ToSlash(rel)], err = os.ReadFile(name)
		return err
	})
	return s, err
}

// damaged is a copy of a store with its damages.
type damaged struct {
	files map[string][]byte
	what  string
}

func (d *damaged) write(dir string) error {
	for name, b := range d.files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// spoil returns a copy with some files changed, and the directories of physical
// partitions that these lie in; "" stands for the rest of the store.
func (s *closedStore) spoil(rng *rand.Rand) (d *damaged, places []string, n int) {
	d = &damaged{files: make(map[string][]byte, len(s.files))}
	for name, b := range s.files {
		d.files[name] = b
	}
	for range 1 + rng.IntN(damagesOfOne) {
		name := s.names[rng.IntN(len(s.names))]
		b := slices.Clone(d.files[name])
		if len(b) == 0 {
			continue
		}
		at, what := rng.IntN(len(b)), ""
		other := d.files[s.names[rng.IntN(len(s.names))]]
		sector, end := at&^511, min(at&^511+512, len(b))
		switch rng.IntN(10) {
		case 0, 1, 2:
			b[at] ^= 1 << rng.IntN(8)
			what = "a bit flipped"
		case 3:
			clear(b[sector:end])
			what = "a sector of zeros"
		case 4:
			for i := range b[sector:end] {
				b[sector+i] = byte(rng.Uint32())
			}
			what = "a sector of junk"
		case 5:
			copy(b[sector:end], other[min(sector, len(other)):])
			what = "a sector of another file"
		case 6:
			b, what = b[:at], "cut"
		case 7:
			b, what = append(b, b[at:min(at+1000, len(b))]...), "longer by a piece of itself, found"
		case 8:
			b, what = nil, "removed, of which a byte"
		default:
			b, what = append(b, make([]byte, 100)...), "100 bytes longer, found"
		}
		// Physical partitions share a file by hard links: what becomes of its bytes all of its
		// names show.
		names := []string{name}
		if b != nil {
			names = s.links(name)
		}
		for _, link := range names {
			if d.files[link] = b; b == nil {
				delete(d.files, link)
			}
			places = append(places, placeOf(link))
		}
		d.what += fmt.Sprintf("%s at %d of %s; ", what, at, name)
		n++
	}
	return d, places, n
}

// links returns the names of a file: segment files of one number are one file.
func (s *closedStore) links(name string) (all []string) {
	if placeOf(name) == "" || path.Ext(name) != ".seg" {
		return []string{name}
	}
	for _, other := range s.names {
		if placeOf(other) != "" && path.Base(other) == path.Base(name) {
			all = append(all, other)
		}
	}
	return all
}

// placeOf returns the directory of the physical partition that a file lies in, "" if it
// lies in none.
func placeOf(name string) string {
	if parts := strings.SplitN(name, "/", 3); parts[0] == "p" && len(parts) == 3 {
		return parts[0] + "/" + parts[1] + "/"
	}
	return ""
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

// use opens a damaged store, reads it and, with writes, changes it and opens it
// again.
func (s *closedStore) use(ctx context.Context, dir string, places []string, writes bool) error {
	is := make(models, len(s.models))
	for i, l := range s.models {
		is[i] = l.copy()
	}
	hurt := func(l *lane, err error) error {
		if !typed(err) || !slices.Contains(places, s.places[l.number]) {
			return err
		}
		return nil
	}
	opened := func(fn func(*engine.DB, containers) error) (there bool, err error) {
		db, err := engine.Open(ctx, dir, &settings[0].options)
		if err != nil {
			if typed(err) && slices.Contains(places, "") {
				return false, nil
			}
			return false, fmt.Errorf("open: %w", err)
		}
		cs, err := openedContainers(db)
		if err == nil {
			err = fn(db, cs)
		}
		if closeErr := db.Close(); err == nil && !typed(closeErr) {
			err = closeErr
		}
		return true, err
	}
	read := func(cs containers) error {
		for _, l := range is {
			f, err := cs.readLane(ctx, l)
			if err == nil && !f.is(l) {
				return violation("lane %d: %s", l.number, difference(f.docs, l.docs))
			}
			if err == nil {
				if err = cs.compareAnswers(ctx, l); err != nil {
					err = fmt.Errorf("queries: %w", err)
				}
			}
			if err != nil && hurt(l, err) != nil {
				return fmt.Errorf("read of lane %d in %s: %w", l.number, s.places[l.number], err)
			}
		}
		// A feed that ends without an error has shown everything.
		f := newConsumer(is[0].shape, is[0].seed)
		if err := cs.feed(ctx, false, "start", is, false, f.take); err != nil {
			if !typed(err) || len(places) == 0 {
				return fmt.Errorf("feed: %w", err)
			}
			return nil
		}
		for i, l := range is {
			if !l.opaque {
				if err := f.compareLane(i, l); err != nil {
					return err
				}
			}
		}
		return nil
	}
	there, err := opened(func(db *engine.DB, cs containers) error {
		if err := read(cs); err != nil || !writes {
			return err
		}
		for _, l := range is {
			for range 20 {
				op := l.next()
				if err := cs.do(ctx, l, op); err == nil {
					l.apply(op)
				} else if hurt(l, err) != nil {
					return fmt.Errorf("operation of lane %d: %w", l.number, err)
				} else {
					break
				}
			}
		}
		for i, call := range []func(context.Context) error{db.Flush, db.Compact} {
			if err := call(ctx); err != nil && !typed(err) {
				return fmt.Errorf("flush or settle %d: %w", i, err)
			}
		}
		if err := reshapeAll(ctx, db, false); err != nil && !typed(err) {
			return fmt.Errorf("reshape: %w", err)
		}
		return read(cs)
	})
	if err != nil || !there || !writes {
		return err
	}
	// After a merge or split the partitions have other directories, so damage of one
	// can be in any, by its files.
	// They are split and merged again, now of files that an open has set aside.
	_, err = opened(func(db *engine.DB, cs containers) error {
		if err := read(cs); err != nil {
			return err
		}
		if err := reshapeAll(ctx, db, true); err != nil && !typed(err) {
			return fmt.Errorf("reshape: %w", err)
		}
		if err := db.Compact(ctx); err != nil && !typed(err) {
			return fmt.Errorf("compact: %w", err)
		}
		return read(cs)
	})
	if err != nil {
		return fmt.Errorf("opened again: %w", err)
	}
	return nil
}

// reshapeAll splits the first partition and merges two others. Called again it merges the
// first two, the halves of that split, and splits what that makes.
func reshapeAll(ctx context.Context, db *engine.DB, again bool) error {
	c, err := db.Container("c")
	if err != nil {
		return err
	}
	var errs []error
	wait := func(job *engine.ReshapeJob, err error) {
		if err == nil {
			err = job.Wait(ctx)
		}
		if err != nil && !errors.Is(err, engine.ErrRefused) {
			errs = append(errs, err)
		}
	}
	parts := c.Partitions()
	if again {
		wait(c.Merge(ctx, parts[0].ID, parts[1].ID))
		wait(c.Split(ctx, c.Partitions()[0].ID, nil))
	} else {
		wait(c.Split(ctx, parts[0].ID, nil))
		wait(c.Merge(ctx, parts[1].ID, parts[2].ID))
	}
	for _, err := range errs {
		if !typed(err) {
			return err
		}
	}
	return errors.Join(errs...)
}
