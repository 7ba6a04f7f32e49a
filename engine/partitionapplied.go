package engine

import "github.com/cleavestore/cleave/internal/manifest"

// parentProgress is the newest sequence and entry of a partition's parents when the
// partition took over.
type parentProgress struct {
	seq uint64
	manifest.Applied
}

// replayMark notes an entry that replay found in a record of the log. last is the
// sequence of the record.
func (p *partition) replayMark(last uint64, at manifest.Applied) {
	p.mu.lastSeq = max(p.mu.lastSeq, last)
	p.visible.Store(max(p.visible.Load(), last))
	if at.Index > p.mu.applied.Index {
		p.mu.applied = at
	}
	p.c.raiseEntryTime(at.Time)
}

// noteEntries stores the newest entry in the manifest of a partition that holds
// nothing in memory. An entry that wrote nothing leaves no memtable, so no flush
// stores it.
func (p *partition) noteEntries() error {
	p.install.Lock()
	defer p.install.Unlock()
	p.mu.Lock()
	v := p.version.Load()
	empty := v.active.Versions() == 0 && len(v.frozen) == 0 && !p.dropped.Load()
	last, at := p.mu.lastSeq, p.mu.applied
	p.mu.Unlock()
	if !empty || last <= p.install.flushedSeq.Load() || len(p.inherited()) > 0 {
		return nil
	}
	return p.storeFiles(v.runs, last, at, nil)
}
