package segment

import (
	"runtime/debug"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// A mapped file that shrinks, or whose device fails, answers with a memory fault, which
// would end the process. So every call touches mapped bytes only between guard and
// unguard, which turn the fault into an error:
//
//	defer r.unguard(guard(), &err)
//
// No lock is held and no state shared with other calls is changed in between.

// guard makes memory faults of this goroutine panics and returns the setting before.
func guard() bool { return debug.SetPanicOnFault(true) }

// unguard undoes guard. Deferred, it turns a memory fault in the mapping into
// *err; any other panic goes on.
func (r *Reader) unguard(before bool, err *error) {
	debug.SetPanicOnFault(before)
	if p := recover(); p != nil {
		off, ok := r.faultOffset(p)
		if !ok {
			panic(p)
		}
		*err = fault.IO("read mapped", r.name, off, vfs.ErrFault)
	}
}

// faultOffset returns where in the mapping the memory fault happened that was recovered
// as p; false if p is something else.
func (r *Reader) faultOffset(p any) (int64, bool) {
	if r.budget == nil {
		return 0, false
	}
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	for _, v := range []*view{r.mapping.now.Load(), r.mapping.leaving} {
		if v == nil {
			continue
		}
		if off, ok := vfs.FaultOffset(p, v.data); ok {
			return off, true
		}
	}
	return 0, false
}
