package vfs

import (
	"errors"
	"testing"
	"unsafe"
)

// addressed is a memory fault as the Go runtime tells it, with an address.
type addressed struct{ at uintptr }

func (addressed) Error() string   { return "memory fault" }
func (addressed) RuntimeError()   {}
func (a addressed) Addr() uintptr { return a.at }

// TestFaultOfCopy: a fault of the mapping is told with its place, or as one at the
// start if the system does not say where; whatever else is wrong goes on as it is.
func TestFaultOfCopy(t *testing.T) {
	recovered := func(do func()) (r any) {
		defer func() { r = recover() }()
		do()
		return nil
	}
	dst := make([]byte, 1<<20) // too large for the stack, which moves
	start := uintptr(unsafe.Pointer(&dst[0]))
	nothing := recovered(func() { // what the runtime makes of a fault at address 0
		var p *[1]byte
		p[0] = 1
	})
	for _, c := range []struct {
		name  string
		r     any
		at    int64
		fault bool
	}{
		{"inside", addressed{start + 42}, 42, true},
		{"address 0", addressed{}, 0, true},
		{"no address", nothing, 0, true},
		{"elsewhere", addressed{start + uintptr(len(dst))}, 0, false},
		{"no fault", errors.New("planted"), 0, false},
	} {
		var at int64
		var ok bool
		went := recovered(func() { at, ok = faultOfCopy(c.r, dst) })
		if c.fault && (went != nil || ok || at != c.at) {
			t.Errorf("%s: at %d, ok %v, panic %v; want %d", c.name, at, ok, went, c.at)
		}
		if !c.fault && went != c.r {
			t.Errorf("%s: panics with %v", c.name, went)
		}
	}
}
