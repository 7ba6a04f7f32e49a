package host

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestQuietGroups: replicas that have nothing to do are woken for heartbeats only, those that follow only by
// these. After a node has come back, all its groups are given back to it soon. One that stops sending
// heartbeats, with its connections open, is replaced as soon as if its followers had counted each tick.
func TestQuietGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const groups = 12
		r := newRig(t, groups)
		r.steady()
		tick := r.hosts[1].cfg.Tick
		time.Sleep(10 * time.Second)
		asleep := func() {
			t.Helper()
			for node, h := range r.hosts {
				for _, o := range h.replicas.all() {
					var rested int64
					o.await(func() { rested = o.rested })
					want := int64(followTicks)
					if o.status.leading.Load() {
						want = heartbeatTicks
					}
					if rested != want {
						t.Errorf("node %d, group %d: it was left alone for %d ticks, want %d", node, o.def.ID, rested, want)
					}
				}
			}
		}
		for i := range 15 {
			asleep() // which wakes them
			time.Sleep(2*electionTicks*tick + time.Duration(i)*tick)
		}
		r.kill(1)
		time.Sleep(5 * time.Second)
		must(t, r.start(1))
		begun := time.Now()
		r.steady()
		if took := time.Since(begun); took > steadyTime+3*lookTicks*tick {
			t.Errorf("the groups were given back after %v", took)
		}
		time.Sleep(10 * time.Second)
		asleep()
		first := r.hosts[1]
		r.net.Blackhole(address(1), true)
		begun = time.Now()
		delete(r.hosts, 1) // it takes itself for the leader for a while
		for _, g := range r.cluster.Groups() {
			for r.leader(g.ID) == nil && time.Since(begun) < 10*time.Second {
				time.Sleep(tick / 10)
			}
		}
		// The longest timeout, and one more where two of them have asked at once.
		if took := time.Since(begun); took > 4*electionTicks*tick {
			t.Errorf("all groups have a leader again after %v", took)
		}
		r.net.Blackhole(address(1), false)
		r.hosts[1] = first
		r.close()
	})
}
