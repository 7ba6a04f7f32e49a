package engine

import "time"

// Background work is done in small pieces, so that callers get the processors.
// After each piece it yields to goroutines that wait for its processor. That is not
// enough if as many goroutines are busy as there are processors: the scheduler goes on
// with background work before it takes over callers that wait for another processor,
// and before it polls network connections and timers. So after workSlice the
// background work sleeps for a nap, in which its processor does all that.
//
// Callers that keep all processors busy give one back only after 10 ms. Work that
// yields after each piece then gets nothing done, and its backlog grows: runs to read,
// files without an index, full buffers. So background work has a share of a
// processor, which grows with the backlog. It does not yield while it has had less
// than its share. It gets idle time of processors on top of the share.
const (
	yieldEvery = 64 // items in a piece
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

// debts is the backlog behind a flush, merge or rewrite.
type debts struct {
	buffers float64 // of a flush: part of the write buffers that is filled
	runs    int     // of a merge: runs of the partition; a frozen memtable counts as one
	files   int     // of a rewrite: files without an index, or with a large foreign part
}

// Shares of a processor.
const (
	leastShare   = 0.20 // without a backlog
	rewriteShare = 0.50 // with one file to be rewritten
	mostRewrite  = 0.75 // with manyFiles
	manyFiles    = 16

	buffersFrom = 0.50 // part of the write buffers above which the share of a flush grows
)

// share returns the part of a processor that the work must get: 0 without a backlog;
// 1, at which the work does not yield, if writers wait for it or soon will.
func (d debts) share() float64 {
	s := max(between(d.buffers, buffersFrom, pressureFrom), between(float64(d.runs), tierRuns, manyRuns))
	if d.files > 0 {
		s = max(s, rewriteShare+(mostRewrite-rewriteShare)*between(float64(d.files), 1, manyFiles))
	}
	return s
}

// between scales n: 0 up to from, 1 from to on, linear in between.
func between(n, from, to float64) float64 { return max(0, min(1, (n-from)/(to-from))) }

// pacer makes the pauses of a piece of background work. It is for one goroutine.
type pacer struct {
	now   func() time.Time
	yield func() // lets goroutines run that wait for the processor
	nap   func() // sleeps

	last   time.Time     // when pass last ran
	usual  time.Duration // what a piece usually takes
	rested time.Duration // work since the last nap
	credit time.Duration // how far the work is behind its share; negative: ahead of it
}

// pause is called after each piece of work, with the share that the work must get.
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

// worked counts a piece of work that took the time passed.
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
