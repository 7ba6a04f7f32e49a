package host_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// load are clients that write and read one group until they are stopped. What they have seen is the
// longest time without an acknowledged write, and without a read.
type load struct {
	t      *testing.T
	stop   atomic.Bool
	tasks  sync.WaitGroup
	mu     sync.Mutex
	last   [2]time.Time // of writes and of reads
	gaps   [2]time.Duration
	unsure int
}

// startLoad starts clients. In the bubble time passes only with timers, so what they measure are ticks,
// syncs and pauses, not how fast the machine is.
func startLoad(t *testing.T, r *host.Rig, c *client.Client) *load {
	l := &load{t: t}
	l.last = [2]time.Time{time.Now(), time.Now()}
	text := r.KeyIn(0)
	key := engine.StringKey(text)
	note := func(kind int, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case errors.Is(err, client.ErrResults), errors.Is(err, client.ErrUnknown):
			l.unsure++
		case err != nil:
			t.Errorf("load: %v", err)
		}
		now := time.Now()
		l.gaps[kind] = max(l.gaps[kind], now.Sub(l.last[kind]))
		l.last[kind] = now
	}
	for w := range 8 {
		l.tasks.Go(func() {
			for i := 0; !l.stop.Load(); i++ {
				_, err := c.Upsert(within(20*time.Second), "items", key, fmt.Appendf(nil, `{"id":"i%d","k":%q,"n":%d}`, w, text, i))
				note(0, err)
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 2 {
		l.tasks.Go(func() {
			for !l.stop.Load() {
				if _, err := c.Read(within(20*time.Second), protocol.Strong, "items", key, "i0"); !errors.Is(err, engine.ErrNotFound) {
					note(1, err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	l.forget()
	return l
}

// forget forgets the gaps so far.
func (l *load) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps, l.unsure = [2]time.Duration{}, 0
}

// end stops the clients.
func (l *load) end() {
	l.stop.Store(true)
	l.tasks.Wait()
}

// within checks that no write and no read has waited for longer than most, and that each write had its
// outcome.
func (l *load) within(what string, most time.Duration) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Logf("%s: no write for %v, no read for %v, %d writes without results", what, l.gaps[0], l.gaps[1], l.unsure)
	if l.gaps[0] > most || l.gaps[1] > most || l.unsure > 0 {
		l.t.Errorf("%s: at most %v was expected", what, most)
	}
}

// underLoad runs a test in a bubble, whose time passes only when nothing is busy: three nodes with one
// group, whose syncs take so long, and clients at work.
func underLoad(t *testing.T, syncs time.Duration, test func(t *testing.T, r *host.Rig, c *client.Client, id uint64, l *load)) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		if syncs > 0 {
			r.SlowSyncs(syncs)
		}
		l := startLoad(t, r, c)
		test(t, r, c, r.Cluster().Groups()[0].ID, l)
		l.end()
		c.Close()
		r.Close()
	})
}

// TestHandover: while clients write and read, the leader of their group changes as it was planned. That
// takes a few syncs, and no tick.
func TestHandover(t *testing.T) {
	underLoad(t, 2*time.Millisecond, func(t *testing.T, r *host.Rig, c *client.Client, id uint64, l *load) {
		for _, to := range []uint64{2, 3, 2, 1} {
			begun := time.Now()
			must(t, r.Leading(id).Transfer(within(time.Second), id, to))
			took := time.Since(begun)
			r.Until("the next leader", func() bool { leads, _ := r.Node(to).Leads(id); return leads })
			time.Sleep(200 * time.Millisecond)
			l.within(fmt.Sprintf("to node %d, ordered for %v", to, took), 40*time.Millisecond)
			l.forget()
		}
		l.end()
		// Without any load.
		begun := time.Now()
		must(t, r.Leading(id).Transfer(within(time.Second), id, 2))
		_, err := c.Upsert(within(time.Second), "items", engine.StringKey(r.KeyIn(0)), fmt.Appendf(nil, `{"id":"i","k":%q}`, r.KeyIn(0)))
		must(t, err)
		if d := time.Since(begun); d > 40*time.Millisecond {
			t.Errorf("from the order to the first write: %v", d)
		}
	})
}

// TestHandoverStays: the leader that was ordered stays, though another one is preferred. When it has been away, the preferred one
// leads again.
func TestHandoverStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := host.NewRig(t, 1, nil)
		r.Steady()
		id := r.Cluster().Groups()[0].ID
		time.Sleep(10 * time.Second)
		must(t, r.Leading(id).Transfer(within(time.Second), id, 2))
		r.Until("the next leader", func() bool { leads, _ := r.Node(2).Leads(id); return leads })
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if leads, _ := r.Node(2).Leads(id); !leads {
				t.Fatal("it does not lead any more")
			}
		}
		r.Kill(2)
		must(t, r.Start(2))
		r.Until("the preferred leader", func() bool { leads, _ := r.Node(1).Leads(id); return leads })
		r.Close()
	})
}

// TestHandoverClose: a node is closed while clients write to the group that it leads.
func TestHandoverClose(t *testing.T) {
	underLoad(t, 2*time.Millisecond, func(t *testing.T, r *host.Rig, c *client.Client, id uint64, l *load) {
		leaving := r.Leading(id)
		begun := time.Now()
		must(t, r.CloseNode(leaving.Node()))
		t.Logf("closed after %v", time.Since(begun))
		time.Sleep(time.Second)
		l.within("close", 60*time.Millisecond)
	})
}

// TestHandoverDeaf: the replica that is to lead does not answer. No write waits for it, and the leader
// stays.
func TestHandoverDeaf(t *testing.T) {
	underLoad(t, 0, func(t *testing.T, r *host.Rig, c *client.Client, id uint64, l *load) {
		r.Network().Blackhole(r.Cluster().Node(2).Address, true)
		l.forget()
		begun := time.Now()
		if err := r.Node(1).Transfer(within(time.Second), id, 2); !errors.Is(err, host.ErrChange) {
			t.Errorf("%v", err)
		}
		if d := time.Since(begun); d > 300*time.Millisecond {
			t.Errorf("it was given up after %v", d)
		}
		l.within("a deaf one", 20*time.Millisecond)
		if leads, _ := r.Node(1).Leads(id); !leads {
			t.Error("the leader has changed")
		}
		r.Network().Blackhole(r.Cluster().Node(2).Address, false)
	})
}

// TestHandoverBehind: the replica that is to lead has been away. While it lacks much it is refused, and no
// write waits. When it has caught up, it leads.
func TestHandoverBehind(t *testing.T) {
	underLoad(t, 0, func(t *testing.T, r *host.Rig, c *client.Client, id uint64, l *load) {
		a, b := r.Cluster().Node(1).Address, r.Cluster().Node(2).Address
		r.Network().Cut(a, b, true) // it says that it is there, and hears nothing
		time.Sleep(500 * time.Millisecond)
		l.forget()
		if err := r.Node(1).Transfer(within(time.Second), id, 2); !errors.Is(err, host.ErrChange) {
			t.Errorf("%v", err)
		}
		l.within("one that is behind", 20*time.Millisecond)
		r.Network().Cut(a, b, false)
		r.Until("it leads", func() bool {
			if h := r.Leading(id); h.Node() != 2 {
				_ = h.Transfer(within(time.Second), id, 2) // it may be behind still
			}
			return r.Leading(id).Node() == 2
		})
	})
}
