package pacing

import (
	"fmt"
	"testing"
	"time"
)

// processors are those that background work runs on, by a clock of their own.
// Callers keep all of them busy or none.
type processors struct {
	Pacer
	clock   time.Time
	busy    int           // callers for each processor
	slice   time.Duration // that the work has had since it last let others run
	work    time.Duration // done
	longest time.Duration // that callers waited
	naps    int
}

// schedule is what the scheduler of the Go runtime gives each goroutine.
const schedule = 10 * time.Millisecond

func newProcessors(busy int) *processors {
	p := &processors{clock: time.Unix(1000, 0), busy: busy}
	p.now = func() time.Time { return p.clock }
	p.yield = func() { p.others() }
	p.Pacer.nap = func() { p.naps++; p.clock = p.clock.Add(nap); p.others() }
	return p
}

// others lets callers run.
func (p *processors) others() {
	p.longest = max(p.longest, p.slice)
	p.slice = 0
	p.clock = p.clock.Add(time.Duration(p.busy) * schedule)
}

// piece does a piece of work.
func (p *processors) piece(d time.Duration) {
	p.clock = p.clock.Add(d)
	p.work += d
	if p.slice += d; p.slice >= schedule && p.busy > 0 {
		p.others() // as the scheduler would have it
	}
}

// do does work in pieces and returns how long it takes for each second.
func (p *processors) do(work, piece time.Duration, share float64) float64 {
	start := p.clock
	for p.work < work {
		p.piece(piece)
		p.Pause(share)
	}
	return p.clock.Sub(start).Seconds() / work.Seconds()
}

// TestPacing has a Pacer work beside callers that keep all processors busy, by a
// clock of its own: it gets its share, and gives way as soon as it has it.
func TestPacing(t *testing.T) {
	for _, piece := range []time.Duration{20 * time.Microsecond, 80 * time.Microsecond, 700 * time.Microsecond, 2 * time.Millisecond} {
		t.Run(fmt.Sprint(piece), func(t *testing.T) {
			const work = 4 * time.Second
			for _, given := range []float64{0, 0.5, 0.6, 0.67, 1} {
				share := max(leastShare, given)
				most := 1.2 / min(share, 0.5) // beside as many callers it can have no more than a half
				if took := newProcessors(1).do(work, piece, given); took > most {
					t.Errorf("share %v: takes %.2f times as long, at most %.2f are wanted", given, took, most)
				}
				if share < 0.5 {
					// No more than that is taken from callers.
					if took := newProcessors(1).do(work, piece, given); took < 0.7/share {
						t.Errorf("share %v: takes %.2f times as long, %.2f are its share", given, took, 1/share)
					}
				}
				idle := newProcessors(0)
				if took := idle.do(work, piece, given); took > 1.1 {
					t.Errorf("share %v: takes %.2f times as long where processors are idle", given, took)
				}
				if share < 1 && idle.naps == 0 || share == 1 && idle.naps > 0 {
					t.Errorf("share %v: %d naps", given, idle.naps)
				}
			}
			// An index job ends within three times what it takes alone.
			if took := newProcessors(1).do(work, piece, 0.5); took > 3 {
				t.Errorf("a rewrite takes %.2f times as long", took)
			}
		})
	}
}

// TestPacingHeldBack: work that gives way to other work goes on when it is behind
// its share, and not at all while nothing presses.
func TestPacingHeldBack(t *testing.T) {
	const giveWay = time.Millisecond
	p := newProcessors(0)
	for range 1000 {
		p.clock = p.clock.Add(giveWay)
		if p.Behind(0) {
			t.Fatal("behind, though nothing presses")
		}
	}
	const share = 0.5
	start := p.clock
	for p.work < time.Second {
		for !p.Behind(share) {
			p.clock = p.clock.Add(giveWay)
		}
		p.piece(80 * time.Microsecond)
		p.Pause(share)
	}
	if took := p.clock.Sub(start).Seconds(); took > 1.2/share {
		t.Errorf("takes %.2f times as long, %.2f are wanted", took, 1/share)
	}
}
