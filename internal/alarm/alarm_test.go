package alarm

import (
	"testing"
	"time"
)

func alarms() map[string]func() Alarm {
	return map[string]func() Alarm{"system": New, "runtime": NewTimer}
}

// An alarm does not wake before the time that was set last; how late it does is
// measured and not promised.
func TestSet(t *testing.T) {
	for name, newAlarm := range alarms() {
		t.Run(name, func(t *testing.T) {
			a := newAlarm()
			for _, d := range []time.Duration{0, time.Microsecond, 3 * time.Millisecond, 0} {
				start := time.Now()
				a.Set(time.Hour) // is replaced
				a.Set(d)
				if a.Wait(); time.Since(start) < d {
					t.Errorf("back before %v", d)
				}
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A goroutine that waits is woken by what another one sets.
func TestSetWhileWaiting(t *testing.T) {
	for name, newAlarm := range alarms() {
		t.Run(name, func(t *testing.T) {
			a := newAlarm()
			woken := make(chan struct{})
			go func() {
				for range 100 {
					a.Wait()
					woken <- struct{}{}
				}
			}()
			for i := range 100 {
				a.Set(time.Duration(i) * time.Microsecond)
				<-woken
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a nap takes on a processor with nothing else to do.
func BenchmarkNap(b *testing.B) {
	for name, newAlarm := range alarms() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			a := newAlarm()
			for b.Loop() {
				a.Set(20 * time.Microsecond)
				a.Wait()
			}
			_ = a.Close()
		})
	}
}
