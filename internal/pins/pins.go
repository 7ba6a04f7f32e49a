// Package pins has the set of sequences that readers of a store have pinned. For each
// key, flushes and compactions keep the newest version at or below each pinned sequence.
package pins

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
)

// Set is a set of pinned sequences. The zero Set is empty. Its methods are safe for
// concurrent use. Its lock is locks.Pins.
type Set struct {
	mu   lockorder.Mutex[locks.Pins]
	held map[Pin]pin
}

// Newest is the sequence of readers that read no overwritten versions. A pin at it only
// tells that they are there.
const Newest = math.MaxUint64

// Reader is a kind of reader.
type Reader uint8

// The kinds of readers. A Backup holds files, and no versions.
const (
	Snapshot Reader = iota
	Scan
	Query
	Transaction
	Copy
	Export
	Backup
)

// String returns the name of the kind.
func (r Reader) String() string {
	return [...]string{"snapshot", "scan", "query", "transaction", "copy", "export", "backup"}[r]
}

// Pin is what a reader has pinned. Readers of a kind that begin at one sequence in one minute of the
// clock share a pin. So where readers follow each other without a gap, an old pin ends with its readers.
type Pin struct {
	Seq    uint64
	by     Reader
	minute int64
}

type pin struct {
	readers int
	since   time.Time // when the first of them began
	clock   int64     // the earliest time by which one of them may judge expiry, milliseconds
}

// Take pins the sequence that now returns. now runs under the lock, so that no compaction
// looks at the pins in between. clock is the present time.
func (p *Set) Take(by Reader, now func() uint64, clock time.Time) Pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := Pin{now(), by, clock.Unix() / 60}
	if p.held == nil {
		p.held = make(map[Pin]pin)
	}
	held, ok := p.held[at]
	if !ok {
		held.since, held.clock = clock, clock.UnixMilli()
	}
	held.clock = min(held.clock, clock.UnixMilli())
	held.readers++
	p.held[at] = held
	return at
}

// Again takes a pin that Take returned, and that was not released, once more.
func (p *Set) Again(at Pin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held[at]
	held.readers++
	p.held[at] = held
}

// Release gives back a pin that Take returned.
func (p *Set) Release(at Pin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held[at]
	if held.readers--; held.readers == 0 {
		delete(p.held, at)
		return
	}
	p.held[at] = held
}

// Live returns the pinned sequences, each once, falling. It leaves out Newest.
func (p *Set) Live() (seqs []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.held {
		if at.Seq != Newest {
			seqs = append(seqs, at.Seq)
		}
	}
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	slices.Reverse(seqs)
	return seqs
}

// Age returns the number of readers, backups excepted, and the age of their oldest pin.
func (p *Set) Age(now time.Time) (readers int, oldest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, held := range p.held {
		if at.by != Backup {
			readers += held.readers
			oldest = max(oldest, now.Sub(held.since))
		}
	}
	return readers, oldest
}

// Earliest returns the earliest time by which a reader may judge expiry, in
// milliseconds, and now at the latest. It is a reading of the clock, which may have
// jumped since. Backups are excepted.
func (p *Set) Earliest(now time.Time) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	clock := now.UnixMilli()
	for at, held := range p.held {
		if at.by != Backup {
			clock = min(clock, held.clock)
		}
	}
	return clock
}

// Held are the readers of one kind.
type Held struct {
	By    Reader
	Count int
	Since time.Time // when the oldest of them began
	Seq   uint64    // the lowest sequence that they have pinned; 0: all are at Newest
}

// Held describes the readers, with one Held for each kind, the oldest first.
func (p *Set) Held() []Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[Reader]Held)
	for at, held := range p.held {
		h, ok := all[at.by]
		if !ok || held.since.Before(h.Since) {
			h.Since = held.since
		}
		if at.Seq != Newest && (h.Seq == 0 || at.Seq < h.Seq) {
			h.Seq = at.Seq
		}
		h.By, h.Count = at.by, h.Count+held.readers
		all[at.by] = h
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Held) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.By.String(), b.By.String()))
	})
}
