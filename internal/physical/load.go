package physical

import (
	"context"
	"errors"

	"github.com/cleavestore/cleave/internal/epoch"
)

// Load makes the documents of a load durable and visible, a batch at a time, with one wait
// for the log each. While one batch waits, the next one is filled. The caller writes a
// document to the log and the memtable, and notes its record: from then on a crash may keep
// it. A batch is shown only after the log has all of it with the durability that its writers
// asked for. Only then Done counts it, so after an error Done is never ahead of what is
// durable. No call that a Load began outlives its Finish. A Load is for one goroutine.
type Load struct {
	Env *Env
	// Enter begins a call, in which a batch waits for the log.
	Enter func(context.Context) (epoch.Guard, error)
	Tell  func(LoadProgress) // called when a batch is durable; nil: nobody is told
	Done  LoadProgress       // what is durable; before the first batch the caller may set it

	batch   loadBatch  // being filled
	waiting *loadBatch // one that waits for the log, nil if none does
	waited  chan error // how that ended
}

// LoadProgress tells how far a load has come. The fields are those of engine.LoadStats.
type LoadProgress struct {
	Committed int64 // documents, from the first of the input
	Bytes     int64
	Batches   int64
	Charge    float64 // request units of all documents so far, kept by the caller
}

// loadBatch is what one sync makes durable.
type loadBatch struct {
	documents int64 // of the input, up to its end
	bytes     int64
	parts     []loaded
}

// loaded is what a batch wrote to a partition.
type loaded struct {
	p      *Partition
	newest Record
}

// Note adds a record of a partition to the batch. It is newer than those noted before.
func (l *Load) Note(p *Partition, w Record) {
	for i := range l.batch.parts {
		if e := &l.batch.parts[i]; e.p == p {
			e.newest = w
			return
		}
	}
	l.batch.parts = append(l.batch.parts, loaded{p, w})
}

// Filled says that a document of so many bytes is in the batch, and that it is the last of
// so many of the input. It returns the bytes of the batch.
func (l *Load) Filled(documents, bytes int64) int64 {
	l.batch.documents, l.batch.bytes = documents, l.batch.bytes+bytes
	return l.batch.bytes
}

// Commit waits for the batch before, and lets this one wait for the log in the background.
// An empty batch is left as it is.
func (l *Load) Commit(ctx context.Context) error {
	if err := l.settle(); err != nil || l.batch.bytes == 0 {
		return err
	}
	call, err := l.Enter(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	b := l.batch
	l.waiting, l.batch = &b, loadBatch{}
	l.waited = make(chan error, 1)
	go func() {
		err := b.show(l.Env)
		call.Leave() // first: the load may be over at once
		l.waited <- err
	}()
	return nil
}

// Finish commits what is left, and waits for it.
func (l *Load) Finish(ctx context.Context) error {
	if err := l.Commit(ctx); err != nil {
		return err
	}
	return l.settle()
}

// settle waits for the batch that waits for the log, and counts it.
func (l *Load) settle() error {
	if l.waiting == nil {
		return nil
	}
	b := l.waiting
	l.waiting = nil
	if err := <-l.waited; err != nil {
		return err
	}
	l.Done = LoadProgress{Committed: b.documents, Bytes: l.Done.Bytes + b.bytes, Batches: l.Done.Batches + 1, Charge: l.Done.Charge}
	if l.Tell != nil {
		l.Tell(l.Done)
	}
	return nil
}

// show waits for the log once, then shows what the batch wrote.
func (b *loadBatch) show(e *Env) error {
	var all Record
	for _, part := range b.parts {
		all.Pos, all.Need = max(all.Pos, part.newest.Pos), max(all.Need, part.newest.Need)
	}
	err := e.Await(all.Pos, all.Need)
	if err == nil {
		for _, part := range b.parts {
			err = errors.Join(err, part.p.Publish(part.newest.Seq))
		}
	}
	return err
}
