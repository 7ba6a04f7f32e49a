package engine

import (
	"fmt"
	"testing"
	"time"
)

// TestShare: what background work has to get grows with what there is to do.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		debts
		want float64
	}{
		{debts{}, 0},
		{debts{buffers: buffersFrom}, 0},
		{debts{buffers: (buffersFrom + pressureFrom) / 2}, 0.5},
		{debts{buffers: pressureFrom}, 1},
		{debts{buffers: 1.1}, 1},
		{debts{runs: tierRuns}, 0},
		{debts{runs: maxRuns}, 0.5},
		{debts{runs: manyRuns}, 1},
		{debts{runs: 100}, 1},
		{debts{files: 1}, rewriteShare},
		{debts{files: manyFiles}, mostRewrite},
		{debts{files: 1000}, mostRewrite},
		{debts{runs: manyRuns, files: 1}, 1},
		{debts{buffers: buffersFrom, runs: tierRuns + 2}, 0.25},
	} {
		if got := c.share(); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("share of %+v is %v, want %v", c.debts, got, c.want)
		}
	}
	for _, grow := range []func(int) debts{
		func(n int) debts { return debts{buffers: float64(n) / 100} },
		func(n int) debts { return debts{runs: n} },
		func(n int) debts { return debts{files: n} },
	} {
		for n := range 120 {
			if a, b := grow(n).share(), grow(n+1).share(); a > b || a < 0 || b > 1 {
				t.Errorf("share of %+v is %v, of %+v %v", grow(n), a, grow(n+1), b)
			}
		}
	}
}

// processors are those that background work runs on, by a clock of their own.
// Callers keep all of them busy or none.
type processors struct {
	pacer
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
	p.pacer.nap = func() { p.naps++; p.clock = p.clock.Add(nap); p.others() }
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
		p.pause(share)
	}
	return p.clock.Sub(start).Seconds() / work.Seconds()
}

// TestPacing has a pacer work beside callers that keep all processors busy, by a
// clock of its own: it gets its share, and gives way as soon as it has it.
func TestPacing(t *testing.T) {
	for _, piece := range []time.Duration{20 * time.Microsecond, 80 * time.Microsecond, 700 * time.Microsecond, 2 * time.Millisecond} {
		t.Run(fmt.Sprint(piece), func(t *testing.T) {
			const work = 4 * time.Second
			for _, d := range []debts{{}, {files: 1}, {files: 8}, {runs: maxRuns}, {buffers: 0.7}, {runs: manyRuns}} {
				share := max(leastShare, d.share())
				most := 1.2 / min(share, 0.5) // beside as many callers it can have no more than a half
				if took := newProcessors(1).do(work, piece, d.share()); took > most {
					t.Errorf("%+v: takes %.2f times as long, at most %.2f are wanted", d, took, most)
				}
				if share < 0.5 {
					// No more than that is taken from callers.
					if took := newProcessors(1).do(work, piece, d.share()); took < 0.7/share {
						t.Errorf("%+v: takes %.2f times as long, %.2f are its share", d, took, 1/share)
					}
				}
				idle := newProcessors(0)
				if took := idle.do(work, piece, d.share()); took > 1.1 {
					t.Errorf("%+v: takes %.2f times as long where processors are idle", d, took)
				}
				if share < 1 && idle.naps == 0 || share == 1 && idle.naps > 0 {
					t.Errorf("%+v: %d naps", d, idle.naps)
				}
			}
			// An index job ends within three times what it takes alone.
			if took := newProcessors(1).do(work, piece, debts{files: 1}.share()); took > 3 {
				t.Errorf("a rewrite takes %.2f times as long", took)
			}
		})
	}
}

// TestPacingHeldBack: work that gives way to other work goes on when it is behind
// its share, and not at all while nothing presses.
func TestPacingHeldBack(t *testing.T) {
	p := newProcessors(0)
	for range 1000 {
		p.clock = p.clock.Add(giveWay)
		if p.behind(debts{}.share()) {
			t.Fatal("behind, though nothing presses")
		}
	}
	share := debts{files: 1}.share()
	start := p.clock
	for p.work < time.Second {
		for !p.behind(share) {
			p.clock = p.clock.Add(giveWay)
		}
		p.piece(80 * time.Microsecond)
		p.pause(share)
	}
	if took := p.clock.Sub(start).Seconds(); took > 1.2/share {
		t.Errorf("takes %.2f times as long, %.2f are wanted", took, 1/share)
	}
}
