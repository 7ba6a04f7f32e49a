package placement

import "time"

// A node may be live and a copy to it come to nothing: its disk is full, or it and the leader do not hear each other. The group would
// wait for the copy for ever. So a copy that takes too long is given up where another node could have one. On that it may take twice
// as long, and so on: if all nodes are slow, one copy has the time that it needs.

// copying is the copy of a group that is under way, as the planner has seen it.
type copying struct {
	replica uint64
	since   time.Time
	late    bool // it takes too long
	given   int  // copies before it that were late, since the last one that was not
}

const (
	// slowest is what a copy has at least in bytes a second.
	slowest = 8 << 20
	// forgiveAfter is for how many times Policy.Copy a node on which a copy got stuck is avoided.
	forgiveAfter = 8
	mostDoubled  = 10
)

// watchCopies notes which copies take too long.
func (p *Planner) watchCopies(now time.Time) {
	for _, n := range p.order {
		if n.isStuck() && now.Sub(n.stuck) >= forgiveAfter*p.policy.Copy {
			n.stuck = time.Time{}
		}
	}
	for id, k := range p.copies {
		r, _ := k.Moving()
		c := &k.copy
		if c.replica != r.ID {
			given := 0
			if c.late {
				given = c.given + 1
			}
			*c = copying{replica: r.ID, since: now, given: given}
		}
		most := (p.policy.Copy + time.Duration(k.Bytes/slowest)*time.Second) << min(c.given, mostDoubled)
		if c.late = !k.CaughtUp && now.Sub(c.since) >= most; c.late {
			p.nodes[r.Node].stuck = now
			p.attention[id] = true
		}
	}
}

// givesUp reports whether the copy of a group takes too long, and another node could have it.
func (p *Planner) givesUp(k *group) bool {
	if !k.copy.late {
		return false
	}
	for _, n := range p.order {
		if n.in < p.policy.In && !n.isStuck() && p.fits(k, n) {
			return true
		}
	}
	return false
}

// isStuck reports whether a copy to the node was late not long ago.
func (n *node) isStuck() bool { return !n.stuck.IsZero() }
