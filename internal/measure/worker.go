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
	places []int64   // the documents in key-space order, for moving keys
	begun  time.Time // when the hot range began to move
	front  *frontier

	schedule *schedule // nil: closed loop
	watch    *watch    // in an open loop
	ticket   ticket    // of the operation, in an open loop

	counters counters
	trace    *traceList   // nil: none is kept
	started  atomic.Int64 // operations, for the progress
	failures int          // in a row
	firstErr error

	versions uint64
	idBuf    []byte
	docBuf   []byte
	readBuf  []byte

	index  int64               // of the document that the operation is about
	counts bool                // count operations by place
	where  func(i int64) uint8 // the place of a document

	expiring bool // a document may be gone
	gone     bool // that of the operation is

	visit   func(doc []byte) // counts documents of a scan
	scanned struct {
		items, bytes int64
		touched      byte
	}
}

func (l *Loop) newWorker(id int, s Store, front *frontier, c counters) *worker {
	w := &worker{
		id: id, store: s, docs: l.Documents, front: front, counters: c,
		keys:   l.Workload.Keys.NewChooser(l.Documents.Count(), l.Seed, uint64(id)),
		places: l.places, begun: time.Now(),
		picker: l.Workload.Mix.NewPicker(l.Seed, uint64(id)),
		counts: l.Places, expiring: l.Expiring, where: placeOf(l.Documents),
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

// errOver says that an operation did not begin: the loop is over.
var errOver = errors.New("the loop is over")

// run performs operations until stop is set, limit of them are done (0: no
// limit), none is due any more, or too many failed in a row.
func (w *worker) run(ctx context.Context, stop *atomic.Bool, limit int64) {
	for n := int64(0); limit == 0 || n < limit; n++ {
		if stop.Load() {
			return
		}
		op := w.picker.Next()
		err := w.step(ctx, op)
		switch {
		case err == nil:
			w.failures = 0
		case err == errOver:
			return
		case errors.Is(err, ErrThrottled):
			w.throttled(op)
		default:
			w.fail(op, err)
			if w.failures == hopeless {
				return
			}
		}
	}
}

// begin returns when the operation begins: now, or when it is due; not ok: it
// does not.
func (w *worker) begin() (start time.Time, ok bool) {
	if w.schedule != nil {
		if w.ticket, ok = w.schedule.take(w.watch); !ok {
			return start, false
		}
	}
	w.started.Add(1)
	return time.Now(), true
}

// done counts an operation that succeeded.
func (w *worker) done(op workload.Op, start time.Time, service time.Duration, bytes int64) {
	at, somewhere := uint8(0), w.counts && op.OnePartition()
	if somewhere {
		at = w.where(w.index)
	}
	counted, place := w.counters.take(w.id)
	t := &counted[op]
	if somewhere {
		t.Places[at]++
	}
	if w.gone {
		t.Expired++
		w.gone = false
	}
	latency := service
	if s := w.schedule; s == nil {
		t.Record(service)
	} else {
		latency = start.Sub(s.start) + service - w.ticket.from
		t.RecordDue(service, latency, w.ticket.lag)
	}
	t.Bytes += bytes
	place.Store(counted)
	if w.trace != nil {
		w.trace.samples = append(w.trace.samples, Sample{At: start.Add(service), Latency: latency, Op: op})
	}
}

// throttled counts an operation that the store did not admit.
func (w *worker) throttled(op workload.Op) {
	counted, place := w.counters.take(w.id)
	counted[op].Throttled++
	place.Store(counted)
	w.failures = 0
}

// fail counts an operation that failed.
func (w *worker) fail(op workload.Op, err error) {
	counted, place := w.counters.take(w.id)
	counted[op].Errors++
	place.Store(counted)
	w.failures++
	if w.firstErr == nil {
		w.firstErr = fmt.Errorf("%s: %w", op, err)
	}
}

// step performs one operation. What is timed is the call of the store, not the
// making of its arguments.
func (w *worker) step(ctx context.Context, op workload.Op) error {
	if op == workload.Insert {
		return w.insert(ctx)
	}
	i := w.choose()
	switch op {
	case workload.Update:
		return w.update(ctx, i)
	case workload.Read:
		return w.read(ctx, i)
	case workload.Absent:
		return w.absent(ctx, i)
	case workload.Scan:
		return w.scan(ctx, op, w.docs.Key(i), w.name(i), 1+w.keys.Rand(workload.MaxScan))
	case workload.Partition:
		return w.scan(ctx, op, w.docs.Key(i), "", 0)
	case workload.RMW:
		return w.modify(ctx, i)
	case workload.Within:
		return w.query(ctx, op, w.docs.Key(i))
	default:
		return w.query(ctx, op, partmap.Key{})
	}
}

// choose returns the index of an existing document.
func (w *worker) choose() int64 {
	if w.places == nil {
		w.index = w.keys.Next(w.front.done.Load())
		return w.index
	}
	w.keys.MoveTo(time.Since(w.begun))
	w.index = w.places[w.keys.Next(int64(len(w.places)))]
	return w.index
}

// insert writes the next new document. Which one that is and what is in it is
// found when it is due: else the documents behind it would wait for a worker
// that prepared it and was not needed for a while.
func (w *worker) insert(ctx context.Context) error {
	if _, ok := w.begin(); !ok {
		return errOver
	}
	i := w.front.take()
	w.index = i
	doc, err := w.version(ctx, i)
	if err == nil {
		key, id := w.docs.Key(i), w.name(i)
		err = w.upsert(ctx, workload.Insert, time.Now(), key, id, doc)
	}
	if err != nil {
		w.front.failed(i)
		return err
	}
	w.front.written(i)
	return nil
}

// name returns the id of document i, valid until the next call.
func (w *worker) name(i int64) string {
	w.idBuf = w.docs.AppendID(w.idBuf[:0], i)
	return unsafe.String(unsafe.SliceData(w.idBuf), len(w.idBuf)) // the store keeps nothing of it
}

func (w *worker) read(ctx context.Context, i int64) error {
	key, id := w.docs.Key(i), w.name(i)
	start, ok := w.begin()
	if !ok {
		return errOver
	}
	body, err := w.store.Read(ctx, key, id, w.readBuf[:0])
	elapsed := time.Since(start)
	if w.expiring && errors.Is(err, ErrNotFound) {
		w.gone = true
		w.done(workload.Read, start, elapsed, 0)
		return nil
	}
	if err != nil {
		return err
	}
	w.readBuf = body[:0]
	if !w.docs.Check(body, id) {
		return fmt.Errorf("document %q: wrong body of %d bytes", id, len(body))
	}
	w.done(workload.Read, start, elapsed, int64(len(body)))
	return nil
}

// absentMark at the end of an id makes one that no document has.
const absentMark = '~'

func (w *worker) absent(ctx context.Context, i int64) error {
	key := w.docs.Key(i)
	w.idBuf = append(w.docs.AppendID(w.idBuf[:0], i), absentMark)
	id := unsafe.String(unsafe.SliceData(w.idBuf), len(w.idBuf))
	start, ok := w.begin()
	if !ok {
		return errOver
	}
	body, err := w.store.Read(ctx, key, id, w.readBuf[:0])
	elapsed := time.Since(start)
	if err == nil {
		return fmt.Errorf("document %q: found, with a body of %d bytes", id, len(body))
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	w.done(workload.Absent, start, elapsed, 0)
	return nil
}

func (w *worker) scan(ctx context.Context, op workload.Op, key partmap.Key, from string, limit int) error {
	w.scanned.items, w.scanned.bytes = 0, 0
	start, ok := w.begin()
	if !ok {
		return errOver
	}
	err := w.store.Scan(ctx, key, from, limit, w.visit)
	elapsed := time.Since(start)
	if err != nil {
		return err
	}
	if n := w.scanned.items; n == 0 && !w.expiring || limit > 0 && n > int64(limit) {
		return fmt.Errorf("scan from %q: %d documents where there are 1 to %d", from, n, limit)
	}
	w.done(op, start, elapsed, w.scanned.bytes)
	return nil
}

// errNoQueries says that the store is no Querier.
var errNoQueries = errors.New("the store answers no queries")

// query asks for documents, in one logical partition if the key is valid.
func (w *worker) query(ctx context.Context, op workload.Op, key partmap.Key) error {
	q, ok := w.store.(Querier)
	if !ok {
		return errNoQueries
	}
	texts := op.Queries()
	text := texts[w.keys.Rand(len(texts))]
	w.scanned.items, w.scanned.bytes = 0, 0
	start, ok := w.begin()
	if !ok {
		return errOver
	}
	err := q.Query(ctx, key, text, w.visit)
	elapsed := time.Since(start)
	if err != nil {
		return err
	}
	w.done(op, start, elapsed, w.scanned.bytes)
	return nil
}

// modify reads a document and writes it again.
func (w *worker) modify(ctx context.Context, i int64) error {
	doc, err := w.version(ctx, i)
	if err != nil {
		return err
	}
	key, id := w.docs.Key(i), w.name(i)
	start, ok := w.begin()
	if !ok {
		return errOver
	}
	body, err := w.store.Read(ctx, key, id, w.readBuf[:0])
	gone := w.expiring && errors.Is(err, ErrNotFound)
	if err != nil && !gone {
		return err
	}
	w.readBuf = body[:0]
	if err := w.store.Upsert(ctx, key, id, doc); err != nil {
		return err
	}
	w.gone = gone
	w.done(workload.RMW, start, time.Since(start), int64(len(body)+len(doc)))
	return nil
}

// update writes another version of document i.
func (w *worker) update(ctx context.Context, i int64) error {
	doc, err := w.version(ctx, i)
	if err != nil {
		return err
	}
	key, id := w.docs.Key(i), w.name(i)
	start, ok := w.begin()
	if !ok {
		return errOver
	}
	return w.upsert(ctx, workload.Update, start, key, id, doc)
}

// upsert writes a document in an operation that has begun.
func (w *worker) upsert(ctx context.Context, op workload.Op, start time.Time, key partmap.Key, id string, doc []byte) error {
	if err := w.store.Upsert(ctx, key, id, doc); err != nil {
		return err
	}
	w.done(op, start, time.Since(start), int64(len(doc)))
	return nil
}

// version returns a version of document i that nobody else writes.
func (w *worker) version(ctx context.Context, i int64) ([]byte, error) {
	w.versions++
	doc, err := w.docs.AppendVersion(ctx, w.docBuf[:0], i, uint64(w.id+1)<<40+w.versions)
	w.docBuf = doc[:0]
	return doc, err
}
