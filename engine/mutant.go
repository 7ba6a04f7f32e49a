package engine

import "runtime"

// mutant is a fault that a test plants to prove that the tests find it. Other
// stores have none.
type mutant uint8

const (
	noMutant        mutant = iota
	mutantNewer            // a snapshot reads at one sequence above its own
	mutantUnchecked        // commits do not check for conflicts
	mutantUnlocked         // commits check for conflicts only before they take the commit lock
	mutantTwoSteps         // the first operation of a batch is shown before the others
)

// showFirst carries out mutantTwoSteps.
func (p *partition) showFirst(seq uint64) {
	p.raise(seq)
	for range 4 {
		runtime.Gosched()
	}
}
