//go:build !race

package arena

import (
	"runtime/debug"
	"testing"
)

// TestGuardedReader: a reader of memory that was given back raises a memory fault.
func TestGuardedReader(t *testing.T) {
	p := NewPool(4 * MaxChunkBytes)
	defer p.Close()
	p.Guard()
	chunk := mustGet(t, p, MinChunkBytes, false)
	p.Put(chunk)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("what was given back can be read")
		}
	}()
	t.Log(chunk[0])
}
