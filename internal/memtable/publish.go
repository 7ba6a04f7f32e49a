//go:build !cleave_mutant_memtable

package memtable

import "sync/atomic"

// Publication (invariant 1): every word that the writer changes while readers
// may look at it goes through these functions. Build tag cleave_mutant_memtable
// makes them plain, which the race detector must notice.

func loadLink(p *uint32) uint32     { return atomic.LoadUint32(p) }
func storeLink(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
func loadWord(p *uint64) uint64     { return atomic.LoadUint64(p) }
func storeWord(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
