package engine

import "context"

// Flush writes every memtable to files. When it returns nil, everything that
// was acknowledged before the call is in segment files.
func (db *DB) Flush(ctx context.Context) error {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	for _, p := range db.partitions() {
		p.mu.Lock()
		p.freezeLocked()
		p.mu.Unlock()
		if err := db.flushAll(ctx, p); err != nil {
			return err
		}
	}
	db.work.reclaimIfManual()
	return db.releaseLog()
}

// flushAll flushes what is frozen in a partition now.
func (db *DB) flushAll(ctx context.Context, p *partition) error {
	for len(p.version.Load().frozen) > 0 {
		if err := p.flushing.take(ctx); err != nil {
			return err
		}
		err := db.flushOldest(ctx, p)
		p.flushing.leave()
		if err != nil {
			return err
		}
		db.work.flushError.Store(nil)
	}
	return nil
}

// Settle flushes, and merges until each partition has at most two runs and
// dead versions are gone.
func (db *DB) Settle(ctx context.Context) error {
	if err := db.Flush(ctx); err != nil {
		return err
	}
	call, err := db.enter(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	for _, p := range db.partitions() {
		for !p.pickMerge(p.version.Load().runs, true).empty() {
			if _, err := db.work.mergeOne(ctx, p, true); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
