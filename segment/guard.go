package segment

import (
	"errors"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/cleavestore/cleave/internal/fault"
)

// A mapped file that shrinks, or whose device fails, answers with a memory
// fault, which would end the process. Every call that touches mapped bytes does
// so between guard and unguard, which make an error of it:
//
//	defer r.unguard(guard(), &err)
//
// No lock is held and no state shared with other calls is changed in between.

var errFault = errors.New("memory fault in the mapping: the file shrank or its device failed")

// guard makes memory faults panics of this goroutine and returns what was so
// before.
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
		*err = fault.IO("read mapped", r.name, off, errFault)
	}
}

// faultOffset returns where in the file a fault happened, if it was one of the
// mapping.
func (r *Reader) faultOffset(p any) (int64, bool) {
	e, ok := p.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok || len(r.data) == 0 {
		return 0, false
	}
	off := e.Addr() - uintptr(unsafe.Pointer(unsafe.SliceData(r.data)))
	return int64(off), off < uintptr(len(r.data))
}
