package openfile

import (
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/prefetch"
	"github.com/cleavestore/cleave/internal/vfs"
)

// View is a mapping of a file.
type View struct {
	Data    []byte // the file, without what was appended to it
	mapping *vfs.Mapping
}

// Expect tells the processor that a reader will be at off soon: it fetches the first bytes
// from there on. What is read in a row behind them it fetches anyway. No off is a fault.
func (v *View) Expect(off int64) {
	const ahead = 128
	if n := int64(len(v.Data)); off >= 0 && off < n {
		prefetch.Lines(v.Data[off:min(off+ahead, n)])
	}
}

// mapping is the mapping of a file.
type mapping struct {
	slot
	making  sync.Mutex // held while it is made: a goroutine that waits needs it too
	was     bool       // made before; guarded by making
	now     atomic.Pointer[View]
	leaving *View // unpublished, and not yet unmapped; guarded by Budget.mu
}

// View returns the mapping of the file, nil if there is none: then the bytes must be
// read. The mapping may be used until the stay or pin of the caller ends, under Guard.
func (f *File) View() *View {
	v := f.mapping.now.Load()
	if v == nil {
		return f.mapFile()
	}
	f.mapping.touch()
	return v
}

// mapFile maps the file if that is wanted and there is room.
func (f *File) mapFile() *View {
	m, b := &f.mapping, f.budget
	if !f.o.Map || b.full() {
		return nil
	}
	m.making.Lock()
	defer m.making.Unlock()
	b.mu.Lock()
	v, leaves := m.now.Load(), m.leaving != nil
	b.mu.Unlock()
	if v != nil || leaves {
		return v // nil: later it is published again, or can be made anew
	}
	if b.mapped.Add(1) > int64(b.o.MaxMappings) {
		b.mapped.Add(-1)
		b.evictMappings()
		return nil
	}
	v, err := f.newView()
	if err != nil {
		b.mapped.Add(-1)
		b.evictMappings()
		return nil // a read will return the error, if there is one
	}
	if m.was {
		b.remaps.Add(1)
	}
	m.was = true
	b.mu.Lock()
	defer b.mu.Unlock()
	m.now.Store(v)
	b.mappings.add(&m.slot)
	return v
}

func (f *File) newView() (*View, error) {
	open, err := f.take()
	if err != nil {
		return nil, err
	}
	defer f.give()
	m, err := open.Map()
	if err != nil {
		return nil, err
	}
	if int64(len(m.Data)) < f.size {
		m.Unmap()
		return nil, errEnded
	}
	m.Advise(0, 0, vfs.Random)
	return &View{m.Data[:f.size], m}, nil
}
