package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
)

// pins is the set of sequences that readers have pinned. A merge keeps, for
// each key, the newest version at or below each of them.
type pins struct {
	mu   lockorder.Mutex[locks.Pins]
	held map[place]pin
}

// reader is the kind of a reader.
type reader uint8

const (
	bySnapshot reader = iota
	byScan
	byQuery
	byTransaction
	byCopy
	byExport
	byBackup
)

func (r reader) String() string {
	return [...]string{"snapshot", "scan", "query", "transaction", "copy", "export", "backup"}[r]
}

// place is a sequence and a kind of reader. All readers of the kind at the sequence
// share one pin.
type place struct {
	seq uint64
	by  reader
}

type pin struct {
	readers int
	since   time.Time // when the first of them began
	clock   int64     // the earliest time by which one of them may judge expiry, milliseconds
}

// take pins the sequence that now returns. now runs under the lock, so that no merge
// looks at the pins in between.
func (p *pins) take(by reader, now func() uint64, clock time.Time) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := place{now(), by}
	if p.held == nil {
		p.held = make(map[place]pin)
	}
	held, ok := p.held[at]
	if !ok {
		held.since, held.clock = clock, clock.UnixMilli()
	}
	held.clock = min(held.clock, clock.UnixMilli())
	held.readers++
	p.held[at] = held
	return at.seq
}

func (p *pins) release(by reader, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := place{seq, by}
	held := p.held[at]
	if held.readers--; held.readers == 0 {
		delete(p.held, at)
		return
	}
	p.held[at] = held
}

// live returns the pinned sequences, each once, falling. It leaves out maxSequence, at
// which no overwritten versions are read.
func (p *pins) live() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.liveLocked()
}

func (p *pins) liveLocked() (seqs []uint64) {
	for at := range p.held {
		if at.seq != maxSequence {
			seqs = append(seqs, at.seq)
		}
	}
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	slices.Reverse(seqs)
	return seqs
}

// age returns the number of readers, backups excepted, and the age of their oldest pin.
func (p *pins) age(now time.Time) (readers int, oldest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, held := range p.held {
		if at.by != byBackup {
			readers += held.readers
			oldest = max(oldest, now.Sub(held.since))
		}
	}
	return readers, oldest
}

// earliest returns the earliest time by which a reader may judge expiry, in
// milliseconds, and now at the latest. It is a reading of the clock, which may have
// jumped since. Backups are excepted.
func (p *pins) earliest(now time.Time) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	clock := now.UnixMilli()
	for at, held := range p.held {
		if at.by != byBackup {
			clock = min(clock, held.clock)
		}
	}
	return clock
}

// holders describes the readers, with one Holder for each kind.
func (p *pins) holders() []Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[reader]Holder)
	for at, held := range p.held {
		h, ok := all[at.by]
		if !ok || held.since.Before(h.Since) {
			h.Since = held.since
		}
		if at.seq != maxSequence && (h.Seq == 0 || at.seq < h.Seq) {
			h.Seq = at.seq
		}
		h.What, h.Count = at.by.String(), h.Count+held.readers
		all[at.by] = h
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Holder) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.What, b.What))
	})
}
