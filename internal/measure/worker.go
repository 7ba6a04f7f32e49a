package measure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// worker performs operations one after the other.
type worker struct {
	id     int
	store  Store
	docs   Documents
	keys   *workload.Chooser
	picker *workload.Picker
	front  *frontier

	tallies  [workload.NumOps]Tally
	started  atomic.Int64 // operations, for the progress
	failures int          // in a row
	firstErr error

	versions uint64
	idBuf    []byte
	docBuf   []byte
	readBuf  []byte

	visit   func(doc []byte) // counts documents of a scan
	scanned struct {
		items, bytes int64
		touched      byte
	}
}

func (l *Loop) newWorker(id int, s Store, front *frontier) *worker {
	w := &worker{
		id: id, store: s, docs: l.Documents, front: front,
		keys:   l.Workload.Keys.NewChooser(l.Documents.Count(), l.Seed, uint64(id)),
		picker: l.Workload.Mix.NewPicker(l.Seed, uint64(id)),
	}
	w.visit = func(doc []byte) {
		w.scanned.items++
		w.scanned.bytes += int64(len(doc))
		if len(doc) > 0 {
			w.scanned.touched ^= doc[0] ^ doc[len(doc)-1]
		}
	}
	return w
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
			w.tallies[op].Errors++
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
func (w *worker) step(ctx context.Context, op workload.Op) error {
	t := &w.tallies[op]
	if op == workload.Insert {
		i := w.front.take()
		defer w.front.written(i)
		return w.write(ctx, t, i)
	}
	i := w.keys.Next(w.front.done.Load())
	switch op {
	case workload.Update:
		return w.write(ctx, t, i)
	case workload.Read:
		return w.read(ctx, t, i)
	case workload.Absent:
		return w.absent(ctx, t, i)
	case workload.Scan:
		return w.scan(ctx, t, w.docs.Key(i), w.name(i), 1+w.keys.Rand(workload.MaxScan))
	case workload.Partition:
		return w.scan(ctx, t, w.docs.Key(i), "", 0)
	default:
		return w.modify(ctx, t, i)
	}
}

// name returns the id of document i, valid until the next call.
func (w *worker) name(i int64) string {
	w.idBuf = w.docs.AppendID(w.idBuf[:0], i)
	return unsafe.String(unsafe.SliceData(w.idBuf), len(w.idBuf)) // the store keeps nothing of it
}

func (w *worker) read(ctx context.Context, t *Tally, i int64) error {
	key, id := w.docs.Key(i), w.name(i)
	start := time.Now()
	body, err := w.store.Read(ctx, key, id, w.readBuf[:0])
	elapsed := time.Since(start)
	if err != nil {
		return err
	}
	w.readBuf = body[:0]
	if !w.docs.Check(body, id) {
		return fmt.Errorf("document %q: wrong body of %d bytes", id, len(body))
	}
	t.Record(elapsed)
	t.Bytes += int64(len(body))
	return nil
}

// absentMark at the end of an id makes one that no document has.
const absentMark = '~'

func (w *worker) absent(ctx context.Context, t *Tally, i int64) error {
	key := w.docs.Key(i)
	w.idBuf = append(w.docs.AppendID(w.idBuf[:0], i), absentMark)
	id := unsafe.String(unsafe.SliceData(w.idBuf), len(w.idBuf))
	start := time.Now()
	body, err := w.store.Read(ctx, key, id, w.readBuf[:0])
	elapsed := time.Since(start)
	if err == nil {
		return fmt.Errorf("document %q: found, with a body of %d bytes", id, len(body))
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	t.Record(elapsed)
	return nil
}

func (w *worker) scan(ctx context.Context, t *Tally, key partmap.Key, from string, limit int) error {
	w.scanned.items, w.scanned.bytes = 0, 0
	start := time.Now()
	err := w.store.Scan(ctx, key, from, limit, w.visit)
	elapsed := time.Since(start)
	if err != nil {
		return err
	}
	if n := w.scanned.items; n == 0 || limit > 0 && n > int64(limit) {
		return fmt.Errorf("scan from %q: %d documents where there are 1 to %d", from, n, limit)
	}
	t.Record(elapsed)
	t.Bytes += w.scanned.bytes
	return nil
}

// modify reads a document and writes it again.
func (w *worker) modify(ctx context.Context, t *Tally, i int64) error {
	doc, err := w.version(ctx, i)
	if err != nil {
		return err
	}
	key, id := w.docs.Key(i), w.name(i)
	start := time.Now()
	body, err := w.store.Read(ctx, key, id, w.readBuf[:0])
	if err != nil {
		return err
	}
	w.readBuf = body[:0]
	if err := w.store.Upsert(ctx, key, id, doc); err != nil {
		return err
	}
	t.Record(time.Since(start))
	t.Bytes += int64(len(body) + len(doc))
	return nil
}

// write writes a version of document i.
func (w *worker) write(ctx context.Context, t *Tally, i int64) error {
	doc, err := w.version(ctx, i)
	if err != nil {
		return err
	}
	key, id := w.docs.Key(i), w.name(i)
	start := time.Now()
	if err := w.store.Upsert(ctx, key, id, doc); err != nil {
		return err
	}
	t.Record(time.Since(start))
	t.Bytes += int64(len(doc))
	return nil
}

// version returns a version of document i that nobody else writes.
func (w *worker) version(ctx context.Context, i int64) ([]byte, error) {
	w.versions++
	doc, err := w.docs.AppendVersion(ctx, w.docBuf[:0], i, uint64(w.id+1)<<40+w.versions)
	w.docBuf = doc[:0]
	return doc, err
}
