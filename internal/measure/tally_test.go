package measure

import (
	"math"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	var a, b Tally
	if a.Micros(50) != 0 || a.Successes() != 0 {
		t.Error("an empty tally has latencies")
	}
	for us := 1; us <= 1000; us++ {
		a.Record(time.Duration(us) * time.Microsecond)
	}
	b.Record(0)
	b.Record(2 * time.Hour)
	b.Errors, b.Bytes = 3, 5
	b.Add(&a)
	if b.Successes() != 1002 || b.Errors != 3 || b.Bytes != 5 {
		t.Errorf("%d successes, %d errors, %d bytes", b.Successes(), b.Errors, b.Bytes)
	}
	for percentile, want := range map[float64]float64{50: 500, 99: 990, 100: 60e6} {
		if got := b.Micros(percentile); math.Abs(got-want) > want/500 {
			t.Errorf("p%v is %v µs, want %v", percentile, got, want)
		}
	}
	b.RecordDue(3*time.Microsecond, 5*time.Microsecond, time.Microsecond)
	if b.Service.Count() != 1003 || !about(b.Response.Micros(50), 5) || !about(b.Lag.Micros(100), 1) || b.Latencies() != &b.Response || a.Latencies() != &a.Service {
		t.Errorf("%v, %v, %v", b.Service.Count(), b.Response.Micros(50), b.Lag.Micros(100))
	}
	b.Reset()
	if b.Successes() != 0 || b.Errors != 0 || b.Busy != 0 || b.Bytes != 0 || b.Response.Count() != 0 || b.Lag.Count() != 0 {
		t.Error("reset leaves something")
	}
	var empty Tally
	empty.Add(&a)
	if empty.Successes() != 1000 {
		t.Error("added to nothing it is lost")
	}
}
