package drain

import (
	"testing"
	"testing/synctest"
	"time"
)

const mib = 1 << 20

// near fails unless got is within a tenth of want.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want*0.9 || got > want*1.1 {
		t.Errorf("%s: %.4g ns a byte, want %.4g", what, got, want)
	}
}

// flush makes a flush that writes for so long and then finishes.
func flush(m *Meter, bytes int64, write, finish time.Duration) {
	f := m.Begin(bytes, bytes)
	for i := range int64(100) {
		f.Wrote(i, 100)
		time.Sleep(write / 100)
	}
	f.Wrote(100, 100)
	time.Sleep(finish)
	f.End(false)
}

// TestPace: what is free lasts until the flush under way ends, whatever part of it is done.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		if m.Pace(mib, 0) != 0 {
			t.Error("nothing is flushed: a pace")
		}
		for range 20 {
			flush(&m, 32*mib, 800*time.Millisecond, 200*time.Millisecond)
		}
		if m.Pace(mib, 0) != 0 {
			t.Error("all flushes have ended: a pace")
		}
		near(t, "a memtable that waits", m.Pace(16*mib, 32*mib), 1e9/(16*mib))
		f := m.Begin(32*mib, 32*mib)
		near(t, "at the beginning", m.Pace(16*mib, 32*mib), 1e9/(16*mib))
		near(t, "and others that wait", m.Pace(16*mib, 192*mib), 5.2e9/(48*mib))
		time.Sleep(400 * time.Millisecond)
		f.Wrote(50, 100)
		near(t, "half is written", m.Pace(8*mib, 32*mib), 0.6e9/(8*mib))
		time.Sleep(400 * time.Millisecond)
		f.Wrote(100, 100)
		near(t, "all is written", m.Pace(4*mib, 32*mib), 0.2e9/(4*mib))
		time.Sleep(100 * time.Millisecond)
		near(t, "it is being synced", m.Pace(4*mib, 32*mib), 0.1e9/(4*mib))
		time.Sleep(900 * time.Millisecond)
		near(t, "the device has stalled", m.Pace(4*mib, 32*mib), 1e9/(4*mib))
		second := m.Begin(2*mib, 2*mib)
		time.Sleep(50 * time.Millisecond)
		second.Wrote(100, 100)
		time.Sleep(150 * time.Millisecond)
		near(t, "a small one ends first", m.Pace(4*mib, 34*mib), 1.2e9/(6*mib))
		f.End(true)
		second.End(false)
		second.End(false)
		if m.Pace(mib, 0) != 0 {
			t.Error("a flush has failed: a pace")
		}
	})
}

// TestSlowerThanBefore: a flush that is slower than those before it is believed.
func TestSlowerThanBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		flush(&m, mib, 100*time.Millisecond, 0)
		f := m.Begin(mib, mib)
		time.Sleep(time.Second)
		f.Wrote(10, 100)
		near(t, "a tenth took a second", m.Pace(mib, mib), 9e9/mib)
		var none *Job
		none.Wrote(1, 2)
	})
}

// TestSlowFromTheBeginning: a job that is far slower than those before it shows that before it
// has done enough to be the measure.
func TestSlowFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		flush(&m, mib, 100*time.Millisecond, 0)
		j := m.Begin(mib, 10)
		time.Sleep(time.Second)
		j.Wrote(3, 100)
		if pace := m.Pace(1, 0); pace < 10e9 {
			t.Errorf("3 of 100 took a second: %.3g ns for each, at least 10 s are left", pace)
		}
		j.End(false)
	})
}
