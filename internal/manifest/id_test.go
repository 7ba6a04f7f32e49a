package manifest

import "testing"

// TestNewID: ids differ, and those made from the same numbers are the same.
func TestNewID(t *testing.T) {
	if a, b := NewID(nil), NewID(nil); a == b {
		t.Error("two stores have one id")
	}
	counter := func() func() uint64 {
		n := uint64(0)
		return func() uint64 { n++; return n }
	}
	if a := NewID(counter()); a != NewID(counter()) || a == (ID{}) {
		t.Errorf("id %x of the same numbers differs, or has none", a)
	}
}
