package exec

import (
	"context"
	"runtime"
	"sync"

	"github.com/cleavestore/cleave/internal/item"
)

// runByKey gives results in the order of keys.
func (e *Execution) runByKey(yield func(*Row) bool) error {
	if e.bounded() {
		e.likely = max(0, e.limit()+e.skip)
	}
	limit := e.likely // results of one unit; 0: all
	if e.Ahead != nil {
		limit = 0
	}
	give := func(row *Row) bool {
		return e.give(row, Position{Key: row.Key, ID: row.ID}, yield) == nil
	}
	if len(e.units) == 1 {
		return e.byKey(e.ctx, &e.units[0], limit, give)
	}
	return e.streamed(limit, give)
}

// byKey gives the results of a unit.
func (e *Execution) byKey(ctx context.Context, u *unit, limit int, yield func(*Row) bool) error {
	after, skipped := e.startOf(u)
	if skipped {
		return nil
	}
	t := e.tester()
	defer t.done()
	return e.scan(ctx, u, after, limit, nil, t, e.rowsOf(t), yield)
}

// rowsOf returns the accept function of a scan for the rows of documents.
func (e *Execution) rowsOf(t *tester) accept {
	if len(e.Select.Columns) == 0 {
		return func(k *item.Key, v *item.Version, known bool) ([]byte, bool, error) {
			ok := t.match(k, v, known)
			return v.Body, ok, e.failed()
		}
	}
	projector := e.Select.Projector()
	var row []byte
	return func(k *item.Key, v *item.Version, known bool) (_ []byte, ok bool, _ error) {
		if !t.match(k, v, known) {
			return nil, false, e.failed()
		}
		row, ok = projector.Append(row[:0], t.eval.Wanted)
		return row, ok, nil
	}
}

// Goroutines work on units ahead of the loop. Their results wait in batches.
const (
	aheadItems   = 64
	aheadBytes   = 64 << 10
	aheadBatches = 4 // of one unit
)

// rowBatch is the next results of a unit.
type rowBatch struct {
	rows []Row
	err  error
}

// streamed gives the results of all units in order, while goroutines work on some of
// the next units. If few results are wanted, the first unit may have them all: so
// streamed reads it alone, and then works on more and more units at a time.
func (e *Execution) streamed(limit int, yield func(*Row) bool) error {
	few := e.likely > 0 && e.likely <= Limits.KeptRows
	if few {
		if err := e.byKey(e.ctx, &e.units[0], limit, yield); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(e.ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	queues := make([]chan rowBatch, len(e.units))
	begun := 0
	for i := range e.units {
		if few && i == 0 {
			begun = 1
			continue
		}
		width := 2 * runtime.GOMAXPROCS(0)
		if few {
			width = min(width, i)
		}
		for ; begun < min(len(e.units), i+width); begun++ {
			u, queue := &e.units[begun], make(chan rowBatch, aheadBatches)
			queues[begun] = queue
			group.Go(func() { e.ahead(ctx, u, limit, queue) })
		}
		for b := range queues[i] {
			if b.err != nil {
				return b.err
			}
			for i := range b.rows {
				if !yield(&b.rows[i]) {
					return errStopped
				}
			}
		}
		if err := ctx.Err(); err != nil {
			return err // ahead may have closed the queue for this error
		}
	}
	return nil
}

// ahead puts the results of a unit into its queue, and closes the queue.
func (e *Execution) ahead(ctx context.Context, u *unit, limit int, queue chan<- rowBatch) {
	defer close(queue)
	var rows []Row
	bytes := 0
	send := func(b rowBatch) bool {
		select {
		case queue <- b:
			rows, bytes = nil, 0
			return true
		case <-ctx.Done():
			return false
		}
	}
	err := e.byKey(ctx, u, limit, func(row *Row) bool {
		rows = append(rows, *row)
		bytes += len(row.Body)
		if len(rows) < aheadItems && bytes < aheadBytes {
			return true
		}
		return send(rowBatch{rows: rows})
	})
	if err != errStopped && (err != nil || len(rows) > 0) {
		send(rowBatch{rows: rows, err: err})
	}
}
