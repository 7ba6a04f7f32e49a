package randtest

import "testing"

func TestLone(t *testing.T) {
	want := 40
	if raceEnabled && testing.Short() {
		want = 10
	}
	if n := Lone(40); n != want {
		t.Errorf("%d turns of 40, want %d", n, want)
	}
	if n := Lone(1); n != 1 {
		t.Errorf("%d turns of 1", n)
	}
}
