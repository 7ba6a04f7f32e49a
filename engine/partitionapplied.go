package engine

import "github.com/cleavestore/cleave/internal/manifest"

// parentProgress is the newest sequence and entry of a partition's parents when the
// partition took over.
type parentProgress struct {
	seq uint64
	manifest.Applied
}

// noteEntries stores the newest entry in the manifest of a partition that holds
// nothing in memory. An entry that wrote nothing leaves no memtable, so no flush
// stores it.
func (p *partition) noteEntries() error {
	p.Install.Lock()
	defer p.Install.Unlock()
	p.mu.Lock()
	v := p.Version.Load()
	empty := v.Active.Versions() == 0 && len(v.Frozen) == 0 && !p.Dropped.Load()
	last, at := p.mu.lastSeq, p.mu.applied
	p.mu.Unlock()
	if !empty || last <= p.Install.FlushedSeq.Load() || len(p.Inherited()) > 0 {
		return nil
	}
	return p.StoreFiles(v.Runs, last, at, nil)
}
