package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/internal/physical"
)

// LoadOptions are the options of a load. Nil means none.
type LoadOptions struct {
	// Durability of each batch; zero: the store's default.
	Durability Durability
	// BatchBytes is the raw size at which a batch is committed; at most 8 MiB.
	// 0: 1 MiB.
	BatchBytes int64
	// Skip is the number of documents to leave out at the beginning of the input. To
	// go on with a load that ended early, set it to LoadStats.Committed of that load.
	Skip int64
	// Progress, if not nil, is called after each batch.
	Progress func(LoadStats)
}

// LoadStats tells how far a load came.
type LoadStats struct {
	// Committed is the number of documents, from the first of the input, that have
	// the requested durability. It includes skipped documents. A load that goes on
	// from there gives the same store.
	Committed int64
	Bytes     int64 // of the documents written
	Batches   int64
}

// InputError names the document at which a load has failed.
type InputError struct {
	Index int64 // in the input, from 0
	Err   error
}

// Error implements error.
func (e *InputError) Error() string { return fmt.Sprintf("document %d: %v", e.Index+1, e.Err) }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

const (
	defaultLoadBytes = 1 << 20
	maxLoadBytes     = 8 << 20
)

// Load upserts documents in input order through the log. It waits for durability
// once for each batch. It is not atomic: after an error, LoadStats.Committed
// documents of the input are in the store, and perhaps some behind them. Other
// writes may go on beside it. The bytes of a document must be valid until docs is
// asked for the next one.
func (c *Container) Load(ctx context.Context, docs iter.Seq2[[]byte, error], o *LoadOptions) (LoadStats, error) {
	var opts LoadOptions
	if o != nil {
		opts = *o
	}
	if docs == nil {
		return LoadStats{}, invalidf("Load: no documents are given")
	}
	if opts.BatchBytes == 0 {
		opts.BatchBytes = defaultLoadBytes
	}
	if opts.BatchBytes < 0 || opts.BatchBytes > maxLoadBytes {
		return LoadStats{}, invalidf("LoadOptions.BatchBytes %d: at most %d", opts.BatchBytes, maxLoadBytes)
	}
	sync, err := c.db.syncs(opts.Durability)
	if err != nil {
		return LoadStats{}, err
	}
	if opts.Skip < 0 {
		return LoadStats{}, invalidf("LoadOptions.Skip %d", opts.Skip)
	}
	// An input without documents asks no more than this.
	call, err := c.enterWriting(ctx, fromCaller)
	if err != nil {
		return LoadStats{}, err
	}
	loop := c.db.loops.Enter()
	defer loop.Leave()
	call.Leave()
	l := loader{c: c, sync: sync, progress: opts.Progress}
	l.stats.Committed = opts.Skip
	r := requests.Get().(*request)
	defer r.release()
	var index int64
	for doc, err := range docs {
		if err == nil && index < opts.Skip {
			index++
			continue
		}
		if err == nil {
			for err = l.add(ctx, r, doc); errors.Is(err, ErrThrottled); err = l.add(ctx, r, doc) {
				if err = c.db.untilAdmitted(ctx, err); err != nil {
					break
				}
			}
		}
		if err != nil {
			if commitErr := l.finish(ctx); commitErr != nil {
				return l.stats, commitErr
			}
			return l.stats, &InputError{Index: index, Err: err}
		}
		index++
		l.batch.documents, l.batch.bytes = index, l.batch.bytes+int64(len(doc))
		if l.batch.bytes >= opts.BatchBytes {
			if err := l.commit(ctx); err != nil {
				return l.stats, err
			}
		}
	}
	if index < opts.Skip {
		return LoadStats{Committed: index}, invalidf("LoadOptions.Skip %d: the input has %d documents", opts.Skip, index)
	}
	return l.stats, l.finish(ctx)
}

// loader puts documents into the log and the memtables as they come. While one batch
// waits for the log, the next one is filled.
type loader struct {
	c        *Container
	sync     bool
	progress func(LoadStats)
	stats    LoadStats
	batch    loadBatch  // being filled
	waiting  *loadBatch // one that waits for the log, nil if none does
	waited   chan error // how that ended
}

// loadBatch is what one sync makes durable.
type loadBatch struct {
	documents int64 // of the input, up to its end
	bytes     int64
	parts     []loaded
}

// loaded is what a batch wrote to a partition.
type loaded struct {
	p      *partition
	newest physical.Record
}

// add applies one document, unpublished.
func (l *loader) add(ctx context.Context, r *request, doc []byte) error {
	call, err := l.c.enterWritingAgain(ctx, fromCaller)
	if err != nil {
		return err
	}
	defer call.Leave()
	if err = l.c.checkDocument(anything, PartitionKey{}); err != nil {
		return err
	}
	if err = l.c.scan(r, doc, PartitionKey{}); err != nil {
		return err
	}
	if l.c.unique != nil {
		return l.addUnique(ctx, r)
	}
	r.precondition, r.ifMatch, r.sync = anything, 0, l.sync
	p, w, err := l.c.place(ctx, r)
	if err == nil {
		l.batch.note(p, w)
	}
	return err
}

// addUnique is add for a scanned document of a container with unique keys.
func (l *loader) addUnique(ctx context.Context, r *request) error {
	b := batches.Get().(*Batch)
	b.begin(l.c, keyOf(string(r.key.PK)))
	b.alone = true
	defer b.release()
	if err := b.add(verbUpsert, r.key.ID, r.ver.Body, r.ttl, nil); err != nil {
		return err
	}
	u := commit{Batch: b, sync: l.sync}
	p, w, err := u.place(ctx)
	if err != nil {
		return aloneError(err)
	}
	l.batch.note(p, w)
	return nil
}

// note adds a record of a partition, newer than those noted before.
func (b *loadBatch) note(p *partition, w physical.Record) {
	for i := range b.parts {
		if b.parts[i].p == p {
			b.parts[i].newest = w
			return
		}
	}
	b.parts = append(b.parts, loaded{p, w})
}

// commit ends the batch: it waits for the batch before, and lets this one wait for
// the log in the background.
func (l *loader) commit(ctx context.Context) error {
	if err := l.settle(); err != nil || l.batch.bytes == 0 {
		return err
	}
	call, err := l.c.db.enterAgain(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	b := l.batch
	l.waiting, l.batch = &b, loadBatch{}
	l.waited = make(chan error, 1)
	go func() {
		defer call.Leave()
		l.waited <- b.show(l.c.db)
	}()
	return nil
}

// show waits for the log once, then shows what the batch wrote.
func (b *loadBatch) show(db *DB) error {
	var all physical.Record
	for _, e := range b.parts {
		all.Pos, all.Need = max(all.Pos, e.newest.Pos), max(all.Need, e.newest.Need)
	}
	err := db.env.Await(all.Pos, all.Need)
	if err == nil {
		for _, e := range b.parts {
			err = errors.Join(err, e.p.Publish(e.newest.Seq))
		}
	}
	return err
}

// settle waits for the batch that waits for the log, and counts it.
func (l *loader) settle() error {
	if l.waiting == nil {
		return nil
	}
	b := l.waiting
	l.waiting = nil
	if err := <-l.waited; err != nil {
		return err
	}
	l.stats.Committed, l.stats.Bytes, l.stats.Batches = b.documents, l.stats.Bytes+b.bytes, l.stats.Batches+1
	if l.progress != nil {
		l.progress(l.stats)
	}
	return nil
}

// finish commits what is left.
func (l *loader) finish(ctx context.Context) error {
	if err := l.commit(ctx); err != nil {
		return err
	}
	return l.settle()
}
