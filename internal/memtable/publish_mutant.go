//go:build cleave_mutant_memtable

package memtable

// The seeded mutant: publication without synchronisation. It exists to prove
// that the race detector sees the arenas (TestMutantIsCaught).

func loadLink(p *uint32) uint32     { return *p }
func storeLink(p *uint32, v uint32) { *p = v }
func loadWord(p *uint64) uint64     { return *p }
func storeWord(p *uint64, v uint64) { *p = v }
