package timestamp

import "testing"

// TestSource follows a clock that is set back, by a little and by much.
func TestSource(t *testing.T) {
	var s Source
	s.Found(100)
	const tolerance = 10
	for _, tc := range []struct{ now, stamp, before, highest int64 }{
		{100, 100, 0, 100},
		{95, 100, 0, 100},
		{90, 100, 0, 100},
		{101, 101, 0, 101},
		{90, 90, 101, 101}, // by more than the tolerance
		{91, 91, 0, 101},
		{85, 91, 0, 101},
		{200, 200, 0, 200},
	} {
		stamp, before := s.Next(tc.now, tolerance)
		if stamp != tc.stamp || before != tc.before || s.Newest() != tc.stamp || s.Highest() != tc.highest {
			t.Errorf("at %d: stamp %d, before %d, highest %d; want %+v", tc.now, stamp, before, s.Highest(), tc)
		}
	}
	s.Found(150)
	if s.Newest() != 200 || s.Highest() != 200 {
		t.Errorf("an old stamp found: newest %d, highest %d", s.Newest(), s.Highest())
	}
}
