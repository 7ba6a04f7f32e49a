package arena

import "testing"

// TestGuard: with Guard what comes back is not lent again soon, is not counted, and
// the system has it back in the end.
func TestGuard(t *testing.T) {
	p := NewPool(4 * MaxChunkBytes)
	p.Guard()
	seen := make(map[*byte]bool)
	for range maxFenced {
		chunk := mustGet(t, p, MinChunkBytes, false)
		if seen[&chunk[0]] {
			t.Fatal("a chunk was lent again")
		}
		seen[&chunk[0]] = true
		chunk[0] = 1
		p.Put(chunk)
		if p.Used() != 0 || p.Held() != 0 {
			t.Fatalf("Used = %d, Held = %d", p.Used(), p.Held())
		}
	}
	p.Close()
	if len(p.mu.fenced) != 0 {
		t.Errorf("%d chunks after Close", len(p.mu.fenced))
	}
}
