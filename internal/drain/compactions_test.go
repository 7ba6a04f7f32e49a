package drain

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPaceRuns: each compaction ends before what is in front of its inputs is as large as they
// are, with the time that nested ones take, those under way and those to come.
func TestPaceRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		runs := func(bytes int64) Runs { return Runs{Bytes: bytes, Each: mib, Tier: 8} }
		if m.PaceRuns(runs(72*mib)) != 0 || !m.Idle() {
			t.Error("nothing is compacted: a pace")
		}
		for range 20 {
			flush(&m, 8*mib, 800*time.Millisecond, 0)
		}
		const write = 0.8e9 / (8 * mib) // nanoseconds a byte
		j := m.BeginNested(8*mib, 7, 72*mib)
		near(t, "runs of one tier", m.PaceRuns(runs(72*mib)), write)
		time.Sleep(400 * time.Millisecond)
		j.Wrote(50, 100)
		near(t, "half is read, a quarter has come", m.PaceRuns(runs(74*mib)), write*4/6)
		near(t, "more has come than there is room for", m.PaceRuns(runs(90*mib)), write*4)
		j.End(false)
		j = m.BeginNested(1000, 7, 1000)
		near(t, "small runs, behind large ones", m.PaceRuns(runs(72*mib)), write*1000/mib)
		j.End(true)

		outer := m.BeginNested(64*mib, 7, 64*mib)
		near(t, "a second tier", m.PaceRuns(runs(64*mib)), 2*write)
		time.Sleep(3200 * time.Millisecond)
		outer.Wrote(50, 100)
		if rest := outer.Rest(); rest != 32*mib {
			t.Errorf("%d bytes are left to be read", rest)
		}
		near(t, "half of it is read", m.PaceRuns(runs(80*mib)), write*32/48+write)
		outer.Pause()
		inner := m.BeginNested(8*mib, 7, 80*mib)
		near(t, "a nested one", m.PaceRuns(runs(80*mib)), write*40/48+write)
		near(t, "runs are drained by the nested one alone", m.Pace(8, 0), 0.8e9/8)
		time.Sleep(800 * time.Millisecond)
		inner.Wrote(100, 100)
		inner.End(false)
		near(t, "the outer one rests", m.PaceRuns(runs(80*mib)), write*32/48+write)
		outer.Resume()
		near(t, "and goes on where it was", m.PaceRuns(runs(80*mib)), write*32/48+write)
		time.Sleep(3200 * time.Millisecond)
		outer.Wrote(100, 100)
		outer.End(false)
		near(t, "what it took is known without the rest", m.Pace(1, 8*mib), 0.8e9)
		if m.PaceRuns(runs(80*mib)) != 0 || !m.Idle() {
			t.Error("all have ended: a pace")
		}
		var none *Job
		none.Pause()
		none.Resume()
	})
}
