package continuation

import "testing"

// TestLimited: what Limited makes CutLimited takes apart, and it refuses what no query with the limit gave.
func TestLimited(t *testing.T) {
	for _, left := range []int{0, 1, 5} {
		if n, inner, ok := CutLimited(Limited(left, "a:b"), 5); n != left || inner != "a:b" || !ok {
			t.Errorf("%d left: %d, %q, %t", left, n, inner, ok)
		}
	}
	if n, inner, ok := CutLimited("", 5); n != 5 || inner != "" || !ok {
		t.Errorf("the first page: %d, %q, %t", n, inner, ok)
	}
	for _, text := range []string{"AAAA", ":AAAA", "6:AAAA", "-1:AAAA", "x:AAAA", "5", "5:"} {
		if _, _, ok := CutLimited(text, 5); ok {
			t.Errorf("%q is taken", text)
		}
	}
}
