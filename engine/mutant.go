package engine

import "runtime"

// mutant is a fault that a test plants to see that it is found. Stores that are
// not opened by such a test have none.
type mutant uint8

const (
	noMutant        mutant = iota
	mutantNewer            // a transaction reads as of one sequence more than it says
	mutantUnchecked        // its commit looks for no conflicts
	mutantUnlocked         // nor, since it looked without the commit lock, under it
	mutantTwoSteps         // the first operation of a batch is shown before the others
)

// showFirst is mutantTwoSteps.
func (p *partition) showFirst(seq uint64) {
	p.raise(seq)
	for range 4 {
		runtime.Gosched()
	}
}
