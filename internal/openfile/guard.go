package openfile

import (
	"runtime/debug"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// A mapped file that shrinks, or whose device fails, answers with a memory fault, which
// would end the process. So every call touches mapped bytes only between Guard and
// Unguard, which turn the fault into an error:
//
//	defer f.Unguard(openfile.Guard(), &err)
//
// No lock is held and no state shared with other calls is changed in between.

// Guard makes memory faults of this goroutine panics and returns the setting before.
func Guard() bool { return debug.SetPanicOnFault(true) }

// Unguard undoes Guard. Deferred, it turns a memory fault in the mapping into
// *err; any other panic goes on.
func (f *File) Unguard(before bool, err *error) {
	debug.SetPanicOnFault(before)
	if p := recover(); p != nil {
		off, ok := f.faultOffset(p)
		if !ok {
			panic(p)
		}
		*err = fault.IO("read mapped", f.name, off, vfs.ErrFault)
	}
}

// faultOffset returns where in the mapping the memory fault happened that was recovered
// as p; false if p is something else.
func (f *File) faultOffset(p any) (int64, bool) {
	if f.budget == nil {
		return 0, false
	}
	f.budget.mu.Lock()
	defer f.budget.mu.Unlock()
	for _, v := range []*View{f.mapping.now.Load(), f.mapping.leaving} {
		if v == nil {
			continue
		}
		if off, ok := vfs.FaultOffset(p, v.Data); ok {
			return off, true
		}
	}
	return 0, false
}
