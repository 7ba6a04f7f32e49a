package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/writebatch"
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
	Charge    float64 // request units of all documents so far, also those not Committed yet
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
	l := loader{c: c, sync: sync}
	l.Env, l.Enter = &c.db.env, c.db.enterAgain
	l.Done.Committed = opts.Skip
	if opts.Progress != nil {
		l.Tell = func(done physical.LoadProgress) { opts.Progress(LoadStats(done)) }
	}
	err = l.run(ctx, docs, &opts)
	return LoadStats(l.Done), err
}

// loader applies documents as they come, and leaves the rest to a physical.Load.
type loader struct {
	physical.Load
	c    *Container
	sync bool
}

// run loads documents.
func (l *loader) run(ctx context.Context, docs iter.Seq2[[]byte, error], opts *LoadOptions) error {
	r := requests.Get().(*request)
	defer r.release()
	var index int64
	for doc, err := range docs {
		if err == nil && index < opts.Skip {
			index++
			continue
		}
		if err == nil {
			err = l.c.db.patiently(ctx, func() error { return l.add(ctx, r, doc) })
		}
		if err != nil {
			if commitErr := l.Finish(ctx); commitErr != nil {
				return commitErr
			}
			return &InputError{Index: index, Err: err}
		}
		index++
		if l.Filled(index, int64(len(doc))) >= opts.BatchBytes {
			if err := l.Commit(ctx); err != nil {
				return err
			}
		}
	}
	if index < opts.Skip {
		l.Done.Committed = index
		return invalidf("LoadOptions.Skip %d: the input has %d documents", opts.Skip, index)
	}
	return l.Finish(ctx)
}

// add applies one document, unpublished.
func (l *loader) add(ctx context.Context, r *request, doc []byte) error {
	call, err := l.c.enterWritingAgain(ctx, fromCaller)
	if err != nil {
		return err
	}
	defer call.Leave()
	if err = l.c.checkDocument(writebatch.Anything, PartitionKey{}); err != nil {
		return err
	}
	if err = l.c.scan(r, doc, PartitionKey{}); err != nil {
		return err
	}
	if l.c.unique != nil {
		return l.addUnique(ctx, r)
	}
	r.precondition, r.ifMatch, r.sync, r.admission = writebatch.Anything, 0, l.sync, mayWait
	p, w, err := l.c.place(ctx, r)
	if l.Done.Charge += r.spent; err == nil {
		l.Note(&p.Partition, w)
	}
	return err
}

// addUnique is add for a scanned document of a container with unique keys.
func (l *loader) addUnique(ctx context.Context, r *request) error {
	b := batches.Get().(*Batch)
	b.beginAlone(l.c, keyOf(string(r.key.PK)))
	defer b.release()
	if err := b.add(verbUpsert, r.key.ID, r.ver.Body, r.ttl, nil); err != nil {
		return err
	}
	u := newCommit(b, l.sync)
	u.admission = mayWait
	p, w, err := u.place(ctx)
	if l.Done.Charge += b.charge; err != nil {
		return aloneError(err)
	}
	l.Note(&p.Partition, w)
	return nil
}
