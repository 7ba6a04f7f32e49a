package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/engine"
)

// options are limits so small that flushes, merges, rotations and splits come
// often.
func options(buffered bool) *engine.Options {
	o := &engine.Options{MemoryBudget: 16 << 20, LogFileBytes: 256 << 10, LogBytes: 1 << 20, FileBytes: 512 << 10, MaxPartitionBytes: 2 << 20}
	if buffered {
		o.Durability = engine.Buffered
	}
	return o
}

// victim is a child process at work.
type victim struct {
	db       *engine.DB
	c        *engine.Container
	dir      string
	ballast  string // a file that goes when the disk is full; empty: none
	out      *bufio.Writer
	mu       sync.Mutex
	unsure   atomic.Bool // a write ended with an outcome that is not known
	finished chan struct{}
}

// runVictim writes to the store until it is killed. from has the number of
// operations that each lane begins with.
func runVictim(ctx context.Context, dir, ballast string, seed uint64, buffered bool, from []int) error {
	db, err := engine.Open(ctx, dir, options(buffered))
	if err != nil {
		return err
	}
	v := &victim{db: db, dir: dir, ballast: ballast, out: bufio.NewWriter(os.Stdout), finished: make(chan struct{})}
	v.c, err = db.EnsureContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}, Index: engine.IndexAll()})
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	var failed atomic.Pointer[error]
	for number := range lanes {
		work.Go(func() {
			l := newLane(seed, number)
			l.advance(from[number])
			if err := v.write(ctx, l); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	go v.disturb(ctx, rand.New(rand.NewPCG(seed, uint64(os.Getpid()))))
	work.Wait()
	close(v.finished)
	if err := failed.Load(); err != nil {
		return *err
	}
	return db.Close()
}

// write carries out the operations of a lane, and says so.
func (v *victim) write(ctx context.Context, l *lane) error {
	for {
		op := l.next()
		switch err := v.do(ctx, l, op); {
		case errors.Is(err, engine.ErrOutcomeUnknown), errors.Is(err, engine.ErrFailed):
			return nil // what was acknowledged counts
		case errors.Is(err, engine.ErrDiskFull), errors.Is(err, engine.ErrBusy):
			if v.ballast == "" {
				return fmt.Errorf("lane %d, operation %d: %w", l.number, op.n, err)
			}
			if err := os.Remove(v.ballast); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("lane %d, operation %d: %w", l.number, op.n, err)
		}
		l.apply(op)
		v.mu.Lock()
		fmt.Fprintf(v.out, "%d %d\n", l.number, op.n)
		err := v.out.Flush()
		v.mu.Unlock()
		if err != nil {
			return err
		}
		if op.n%97 == 0 {
			if err := compareLane(ctx, v.c, l); err != nil {
				return err
			}
		}
	}
}

// do carries out an operation in the store.
func (v *victim) do(ctx context.Context, l *lane, op operation) error {
	pk := l.key()
	switch op.verb {
	case clearLane:
		return v.c.DeleteLogicalPartition(ctx, pk, nil)
	case remove:
		return v.c.Delete(ctx, pk, op.changes[0].id, nil)
	case patch:
		c := op.changes[0]
		text := strings.Repeat(string(rune('a'+c.count%26)), c.size)
		_, err := v.c.Patch(ctx, pk, c.id, new(engine.Patch).Set("/n", c.count).Set("/text", text), nil)
		return err
	case batch:
		b := v.c.NewBatch(pk)
		for _, c := range op.changes {
			var err error
			if c.count < 0 {
				err = b.Delete(c.id, nil)
			} else {
				err = b.Upsert([]byte(l.document(c)), nil)
			}
			if err != nil {
				return err
			}
		}
		_, err := v.c.Commit(ctx, b)
		return err
	case transaction:
		return v.c.Update(ctx, pk, func(tx *engine.Tx) error {
			for _, c := range op.changes {
				item, err := tx.Read(c.id)
				if body, there := l.docs[c.id]; there != (err == nil) || there && string(item.Body) != body {
					return fmt.Errorf("transaction reads %q: %s, %v; the model has %q", c.id, item.Body, err, body)
				}
				if c.count < 0 {
					err = tx.Delete(c.id, nil)
				} else {
					err = tx.Upsert([]byte(l.document(c)), nil)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	default:
		_, err := v.c.Upsert(ctx, []byte(l.document(op.changes[0])), nil)
		return err
	}
}

// disturb does beside the lanes what a store does in years. What it meets
// (refused splits, full disks) is the business of those calls.
func (v *victim) disturb(ctx context.Context, rng *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-v.finished:
			return
		default:
		}
		parts := v.c.Partitions()
		p := parts[rng.IntN(len(parts))]
		switch rng.IntN(8) {
		case 0:
			_ = v.db.Flush(ctx)
		case 1:
			if rng.IntN(4) == 0 {
				_ = v.db.Settle(ctx)
			}
		case 2:
			if len(parts) < 6 {
				if job, err := v.c.Split(ctx, p.ID, nil); err == nil {
					_ = job.Wait(ctx)
				}
			}
		case 3:
			if i := rng.IntN(len(parts)); i+1 < len(parts) {
				if job, err := v.c.Merge(ctx, parts[i].ID, parts[i+1].ID); err == nil {
					_ = job.Wait(ctx)
				}
			}
		case 4:
			dir := fmt.Sprintf("%s.checkpoint", v.dir)
			if _, err := v.db.Checkpoint(ctx, dir); err == nil {
				_ = os.RemoveAll(dir)
			}
		case 5:
			v.backup(ctx)
		case 6:
			_, _ = v.c.Count(ctx, engine.AllPartitions(), engine.Exists("/n"))
		case 7:
			if s, err := v.c.Snapshot(ctx); err == nil {
				for _, err := range s.ScanAll(ctx, nil) {
					if err != nil {
						break
					}
				}
				_ = s.Close()
			}
		}
	}
}

// backup writes one beside the store; it has its name once it is whole and
// synced.
func (v *victim) backup(ctx context.Context) {
	name := v.dir + ".backup"
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return
	}
	defer f.Close()
	if _, err := v.db.Backup(ctx, f, nil); err != nil || f.Sync() != nil {
		return
	}
	if os.Rename(f.Name(), name) == nil {
		if d, err := os.Open(filepath.Dir(name)); err == nil {
			_ = d.Sync()
			_ = d.Close()
		}
	}
}
