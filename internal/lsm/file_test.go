package lsm

import "testing"

// TestMetNoError allocates nothing for a lookup that meets no error.
func TestMetNoError(t *testing.T) {
	f := new(File)
	allocs := testing.AllocsPerRun(100, func() {
		if err := f.Met(nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
