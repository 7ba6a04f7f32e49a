// Package pacing lets background work give way to the callers of a store.
//
// Background work is done in small pieces, so that callers get the processors.
// After each piece it yields to goroutines that wait for its processor. That is not
// enough if as many goroutines are busy as there are processors: the scheduler resumes the
// background work before it takes over callers that wait for another processor,
// and before it polls network connections and timers. So after 0.5 ms of work the
// background work sleeps for 20 µs, in which its processor does both.
//
// Callers that keep all processors busy give a processor back only after 10 ms. Work that
// yields after each piece would then make no progress, and its backlog would grow: runs to
// read, files without an index, full buffers. So background work has a share of a
// processor, which its caller increases with the backlog. It does not yield while it
// has had less than its share. It also uses processors that are idle.
package pacing

import (
	"runtime"
	"time"

	"github.com/cleavestore/cleave/internal/alarm"
)

// Piece is how many items make a piece of work.
const Piece = 64

const (
	leastShare = 0.20 // of a processor, without a backlog
	workSlice  = 500 * time.Microsecond
	nap        = 20 * time.Microsecond

	// A piece counts as work for at most longestPiece times its usual duration: for the
	// rest of the time the goroutine did not run, or waited for the device.
	longestPiece = 2
	// mostCredit bounds how far work may fall behind its share, and mostDebt how far it
	// may get ahead: time missed long ago is not made up at once.
	mostCredit = 20 * time.Millisecond
	mostDebt   = time.Millisecond
)

// Pacer makes the pauses of one flush, compaction or other background work. The zero
// Pacer is ready for use. It is for one goroutine, and must not be copied.
type Pacer struct {
	now   func() time.Time // nil before the first piece
	yield func()           // lets goroutines run that wait for the processor
	nap   func()           // sleeps
	alarm alarm.Alarm      // nil before the first nap

	last   time.Time     // when pass last ran
	usual  time.Duration // what a piece usually takes
	rested time.Duration // work since the last nap
	credit time.Duration // how far the work is behind its share; negative: ahead of it
}

// Pause is called after each piece, with the share of a processor that the work must get.
// At 1 it does not yield. Less than a fifth counts as a fifth.
func (p *Pacer) Pause(share float64) {
	share = max(share, leastShare)
	p.worked(p.pass(share))
	if share >= 1 || p.credit > 0 {
		return
	}
	p.yield()
	p.pass(share)
	if p.credit <= 0 && float64(p.rested)*(1-share) > float64(workSlice) {
		p.nap()
		p.rested = 0
		p.pass(share)
	}
}

// Behind says that work which is held back has had less than its share.
func (p *Pacer) Behind(share float64) bool {
	p.pass(share)
	return share > 0 && p.credit > 0
}

// pass counts the time since it was last called, and returns it.
func (p *Pacer) pass(share float64) (passed time.Duration) {
	if p.now == nil {
		p.now, p.yield, p.nap = time.Now, runtime.Gosched, p.sleep
	}
	now := p.now()
	if !p.last.IsZero() {
		passed = now.Sub(p.last)
	}
	p.last = now
	p.credit = min(p.credit+time.Duration(share*float64(passed)), mostCredit)
	return passed
}

// worked counts a piece of work that took the time passed.
func (p *Pacer) worked(passed time.Duration) {
	if p.usual == 0 || passed < p.usual {
		p.usual = passed
	} else {
		p.usual += (passed - p.usual) / 64
	}
	done := min(passed, longestPiece*p.usual)
	p.rested += done
	p.credit = max(p.credit-done, -mostDebt)
}

// sleep takes a nap.
func (p *Pacer) sleep() {
	if p.alarm == nil {
		p.alarm = alarm.New()
	}
	p.alarm.Set(nap)
	p.alarm.Wait()
}

// Close gives back what the naps took from the system. Pause must not be called after it.
func (p *Pacer) Close() {
	if p.alarm != nil {
		_ = p.alarm.Close()
	}
}
