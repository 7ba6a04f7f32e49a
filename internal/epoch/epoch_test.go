package epoch

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// What Synchronize says may be released must not be in use: the object is
// written without synchronisation, so the race detector watches too.
func TestNothingIsReleasedInUse(t *testing.T) {
	type object struct{ alive bool }
	d := New()
	var published atomic.Pointer[object]
	published.Store(&object{alive: true})
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !stop.Load() {
				g := d.Enter()
				if !published.Load().alive {
					t.Error("a reader saw a released object")
					stop.Store(true)
				}
				g.Leave()
			}
		})
	}
	for range 2000 {
		old := published.Swap(&object{alive: true})
		d.Synchronize()
		old.alive = false
	}
	stop.Store(true)
	readers.Wait()
}

func TestSynchronizeWaitsForReaders(t *testing.T) {
	d := New()
	g := d.Enter()
	done := make(chan struct{})
	go func() {
		d.Synchronize()
		close(done)
	}()
	// Readers that come later do not hold it up, and the first one does: it
	// cannot be done before the first has left.
	for range 1000 {
		d.Enter().Leave()
	}
	select {
	case <-done:
		t.Fatal("Synchronize returned with a reader inside")
	default:
	}
	g.Leave()
	<-done
}

// TestReaderHeldUp holds a reader up between its two steps: it has looked at the
// epoch, and counts itself when a Synchronize has come and gone. What it loads
// then is what the next Synchronize is about, which waits for it.
func TestReaderHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		g := Guard{&d.slots[0].readers[d.epoch.Load()&1]}
		d.Synchronize()
		g.count.Add(1)
		done := make(chan struct{})
		go func() {
			d.Synchronize()
			close(done)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("Synchronize returned with a reader inside")
		default:
		}
		g.Leave()
		<-done
	})
}

func TestSynchronizeWithoutReaders(t *testing.T) {
	d := New()
	for range 10 {
		d.Synchronize()
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	d := New()
	b.ReportAllocs()
	for b.Loop() {
		d.Enter().Leave()
	}
}

func BenchmarkEnterLeaveParallel(b *testing.B) {
	d := New()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			d.Enter().Leave()
		}
	})
}
