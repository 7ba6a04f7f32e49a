package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/wal"
)

// LoadOptions are the options of a load. Nil means none.
type LoadOptions struct {
	// Durability of each batch; zero: the store's default.
	Durability Durability
	// BatchBytes is the raw size at which a batch is committed. 0: 1 MiB.
	BatchBytes int64
	// Skip passes over the first documents of the input: LoadStats.Committed
	// of a load that was broken off.
	Skip int64
	// Progress, if not nil, is called after each batch.
	Progress func(LoadStats)
}

// LoadStats tells how far a load came.
type LoadStats struct {
	// Committed is the number of input documents, from the first, that have
	// the durability that was asked for, those skipped included. A load that
	// goes on from there gives the same store.
	Committed int64
	Bytes     int64 // of the documents written
	Batches   int64
}

// InputError names the document of a load that was refused.
type InputError struct {
	Index int64 // in the input, from 0
	Err   error
}

// Error implements error.
func (e *InputError) Error() string { return fmt.Sprintf("document %d: %v", e.Index+1, e.Err) }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

const (
	defaultBatchBytes = 1 << 20
	maxBatchBytes     = 8 << 20
)

// Load upserts documents in input order through the log, with one durable
// point for each batch. It is not atomic: after an error, LoadStats.Committed
// documents of the input are in the store, and perhaps some behind them. Other
// writers may run beside it. The bytes of a document need only be valid until
// the next one is asked for.
func (c *Container) Load(ctx context.Context, docs iter.Seq2[[]byte, error], o *LoadOptions) (LoadStats, error) {
	var opts LoadOptions
	if o != nil {
		opts = *o
	}
	if opts.BatchBytes == 0 {
		opts.BatchBytes = defaultBatchBytes
	}
	if opts.BatchBytes < 0 || opts.BatchBytes > maxBatchBytes {
		return LoadStats{}, invalidf("LoadOptions.BatchBytes %d: at most %d", opts.BatchBytes, maxBatchBytes)
	}
	mode := opts.Durability.mode
	if mode == durabilityDefault {
		mode = c.db.opts.Durability.mode
	}
	l := loader{c: c, sync: mode == durabilitySynced}
	var stats LoadStats
	r := requests.Get().(*request)
	defer r.release()
	var index, inBatch, bytes int64
	commit := func() error {
		if inBatch == 0 {
			return nil
		}
		if err := l.commit(ctx); err != nil {
			return err
		}
		stats.Committed, stats.Bytes, stats.Batches = index, stats.Bytes+bytes, stats.Batches+1
		inBatch, bytes = 0, 0
		if opts.Progress != nil {
			opts.Progress(stats)
		}
		return nil
	}
	stats.Committed = opts.Skip
	for doc, err := range docs {
		if err == nil && index < opts.Skip {
			index++
			continue
		}
		if err == nil {
			err = l.add(ctx, r, doc)
		}
		if err != nil {
			if commitErr := commit(); commitErr != nil {
				return stats, commitErr
			}
			return stats, &InputError{Index: index, Err: err}
		}
		index++
		inBatch++
		bytes += int64(len(doc))
		if bytes >= opts.BatchBytes {
			if err := commit(); err != nil {
				return stats, err
			}
		}
	}
	return stats, commit()
}

// loader puts documents into the log and the memtables as they come, and waits
// for the log once a batch.
type loader struct {
	c     *Container
	sync  bool
	last  wal.Position
	need  wal.Position
	parts []loaded
}

// loaded is what a batch wrote to a partition.
type loaded struct {
	p   *partition
	seq uint64
}

// add applies one document, unpublished.
func (l *loader) add(ctx context.Context, r *request, doc []byte) error {
	call, err := l.c.enter(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	if err := l.c.db.writable(); err != nil {
		return err
	}
	if l.c.def.Kind != JSON {
		return invalidf("container %q is opaque: load it with Put", l.c.name)
	}
	if err := l.c.scan(r, doc); err != nil {
		return err
	}
	r.demand, r.ifMatch, r.sync = anything, 0, l.sync
	for {
		rt := l.c.routing.Load()
		p := rt.parts[rt.table.Find(&r.epk)]
		seq, pos, need, err := p.apply(ctx, r)
		if err == errMoved {
			continue
		}
		if err != nil {
			return err
		}
		l.last, l.need = max(l.last, pos), max(l.need, need)
		l.note(p, seq)
		l.c.db.counters.written(len(r.key.PK)+len(r.key.ID)+len(doc), false)
		return nil
	}
}

func (l *loader) note(p *partition, seq uint64) {
	for i := range l.parts {
		if l.parts[i].p == p {
			l.parts[i].seq = seq
			return
		}
	}
	l.parts = append(l.parts, loaded{p, seq})
}

// commit waits for the batch and publishes it.
func (l *loader) commit(ctx context.Context) error {
	call, err := l.c.db.enter(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer call.Leave()
	if err := l.c.db.await(l.last, l.need); err != nil {
		return err
	}
	for _, e := range l.parts {
		e.p.publish(e.seq)
	}
	l.parts = l.parts[:0]
	return nil
}
