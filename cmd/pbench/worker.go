package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cleavestore/cleave/internal/workload"
)

// frontier hands out the indexes of new documents and knows up to which all
// are written.
type frontier struct {
	next atomic.Int64
	done atomic.Int64

	mu    sync.Mutex
	ahead map[int64]bool // written, while one before it is not
}

func newFrontier(n int64) *frontier {
	f := &frontier{ahead: make(map[int64]bool)}
	f.next.Store(n)
	f.done.Store(n)
	return f
}

func (f *frontier) take() int64 { return f.next.Add(1) - 1 }

func (f *frontier) written(i int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := f.done.Load()
	if i != done {
		f.ahead[i] = true
		return
	}
	for done++; f.ahead[done]; done++ {
		delete(f.ahead, done)
	}
	f.done.Store(done)
}

// worker performs operations one after the other.
type worker struct {
	id     int
	c      container
	docs   documents
	keys   *workload.Chooser
	picker *workload.Picker
	front  *frontier

	tallies  [workload.NumOps]tally
	started  atomic.Int64 // operations, for the progress line
	failures int          // in a row
	firstErr error

	versions uint64
	idBuf    []byte
	docBuf   []byte
	readBuf  []byte
}

// hopeless is how many errors in a row end a worker: the store is not going to
// recover.
const hopeless = 1000

// run performs operations until stop is set, limit of them are done (0: no
// limit), or too many failed in a row.
func (w *worker) run(ctx context.Context, stop *atomic.Bool, limit int64) {
	for n := int64(0); limit == 0 || n < limit; n++ {
		if stop.Load() {
			return
		}
		w.started.Add(1)
		op := w.picker.Next()
		if err := w.step(ctx, op); err != nil {
			w.tallies[op].errors++
			if w.firstErr == nil {
				w.firstErr = fmt.Errorf("%s: %w", op, err)
			}
			if w.failures++; w.failures == hopeless {
				return
			}
			continue
		}
		w.failures = 0
	}
}

// step performs one operation. What is timed is the call of the store, not the
// making of its arguments.
func (w *worker) step(ctx context.Context, op workload.Op) (err error) {
	t := &w.tallies[op]
	if op == workload.Insert {
		i := w.front.take()
		defer w.front.written(i)
		return w.write(ctx, t, i)
	}
	i := w.keys.Next(w.front.done.Load())
	if op == workload.Update {
		return w.write(ctx, t, i)
	}
	key := w.docs.key(i)
	w.idBuf = w.docs.appendID(w.idBuf[:0], i)
	id := unsafe.String(unsafe.SliceData(w.idBuf), len(w.idBuf)) // the store keeps nothing of it
	switch op {
	case workload.Read:
		start := time.Now()
		body, err := w.c.Read(ctx, key, id, w.readBuf[:0])
		elapsed := time.Since(start)
		if err != nil {
			return err
		}
		w.readBuf = body[:0]
		if !w.docs.check(body, id) {
			return fmt.Errorf("document %q: wrong body of %d bytes", id, len(body))
		}
		t.record(elapsed)
		t.bytes += int64(len(body))
	case workload.Scan:
		limit := 1 + w.keys.Rand(workload.MaxScan)
		start := time.Now()
		items, bytes, err := w.c.Scan(ctx, key, id, limit)
		elapsed := time.Since(start)
		if err != nil {
			return err
		}
		if items == 0 {
			return fmt.Errorf("scan from %q found nothing", id)
		}
		t.record(elapsed)
		t.bytes += bytes
	case workload.RMW:
		doc, err := w.version(ctx, i)
		if err != nil {
			return err
		}
		start := time.Now()
		body, err := w.c.Read(ctx, key, id, w.readBuf[:0])
		if err != nil {
			return err
		}
		w.readBuf = body[:0]
		if err := w.c.Upsert(ctx, doc); err != nil {
			return err
		}
		t.record(time.Since(start))
		t.bytes += int64(len(body) + len(doc))
	}
	return nil
}

// write writes a version of document i.
func (w *worker) write(ctx context.Context, t *tally, i int64) error {
	doc, err := w.version(ctx, i)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := w.c.Upsert(ctx, doc); err != nil {
		return err
	}
	t.record(time.Since(start))
	t.bytes += int64(len(doc))
	return nil
}

// version returns a version of document i that nobody else writes.
func (w *worker) version(ctx context.Context, i int64) ([]byte, error) {
	w.versions++
	doc, err := w.docs.appendVersion(ctx, w.docBuf[:0], i, uint64(w.id+1)<<40+w.versions)
	w.docBuf = doc[:0]
	return doc, err
}
