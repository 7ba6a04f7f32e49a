package engine

import "time"

// Background work is done in small pieces, for callers to get their processors.
// After a piece it lets others run that wait for its processor. That is not enough
// where there are as many busy goroutines as processors: the scheduler goes on with
// background work rather than take over callers that wait for another processor, or
// look at network connections and timers. So after workSlice it sleeps for a nap, in
// which its processor does all that.
//
// Callers that keep all processors busy give one back after 10 ms only. Then work
// that lets others run after each piece gets nothing done, and what it is for grows:
// runs to read, files without an index, full buffers. So background work has a share
// of a processor, the larger the more there is to do, and lets nobody run while it is
// behind that. What processors idle for comes on top of it.
const (
	breathEvery = 64 // items in a piece
	workSlice   = 500 * time.Microsecond
	nap         = 20 * time.Microsecond

	// A piece is counted as work for so many times as long as pieces take as a rule,
	// at most: beyond that the goroutine did not run, or waited for the device.
	longestPiece = 2
	// mostCredit is what work may be behind its share, and mostDebt beyond it: what
	// it did not get long ago it does not get at once.
	mostCredit = 20 * time.Millisecond
	mostDebt   = time.Millisecond
)

// debts are what background work has to do in a place.
type debts struct {
	buffers float64 // of a flush: part of the write buffers that is filled
	runs    int     // of the partition, those that frozen memtables will be included
	files   int     // of a rewrite: files without an index, or with much that is foreign
}

// Shares of a processor.
const (
	leastShare   = 0.20 // if nothing presses
	rewriteShare = 0.50 // with one file to be written anew
	mostRewrite  = 0.75 // with manyFiles
	manyFiles    = 16

	buffersFrom = 0.50 // filled write buffers from which on the share of a flush grows
)

// share returns which part of a processor work has to get: from 0, if nothing
// presses, to 1, where it lets nobody run, since writers wait for it or soon will.
func (d debts) share() float64 {
	s := max(between(d.buffers, buffersFrom, pressureFrom), between(float64(d.runs), tierRuns, manyRuns))
	if d.files > 0 {
		s = max(s, rewriteShare+(mostRewrite-rewriteShare)*between(float64(d.files), 1, manyFiles))
	}
	return s
}

// between says how far n is on the way from one bound to another: 0 to 1.
func between(n, from, to float64) float64 { return max(0, min(1, (n-from)/(to-from))) }

// pacer makes the pauses of a piece of background work. It is for one goroutine.
type pacer struct {
	now   func() time.Time
	yield func() // lets others run that wait for the processor
	nap   func() // sleeps

	last   time.Time     // when it was last looked at
	usual  time.Duration // what a piece takes as a rule
	rested time.Duration // work since the last nap
	credit time.Duration // what work is behind its share; negative: beyond it
}

// pause is called after each piece of work, with the share that work has to get.
func (p *pacer) pause(share float64) {
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

// behind says that work which is held back has had less than its share.
func (p *pacer) behind(share float64) bool {
	p.pass(share)
	return share > 0 && p.credit > 0
}

// pass counts the time since it was last called, and returns it.
func (p *pacer) pass(share float64) (passed time.Duration) {
	now := p.now()
	if !p.last.IsZero() {
		passed = now.Sub(p.last)
	}
	p.last = now
	p.credit = min(p.credit+time.Duration(share*float64(passed)), mostCredit)
	return passed
}

// worked counts a piece of work that was over after a time.
func (p *pacer) worked(passed time.Duration) {
	if p.usual == 0 || passed < p.usual {
		p.usual = passed
	} else {
		p.usual += (passed - p.usual) / 64
	}
	done := min(passed, longestPiece*p.usual)
	p.rested += done
	p.credit = max(p.credit-done, -mostDebt)
}
