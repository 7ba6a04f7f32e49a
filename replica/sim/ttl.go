package sim

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
)

// In some runs the default time to live of the container changes again and again. Each change is a
// definition with a revision of its own. Leaders propose the newest definition until their groups have it, and at
// times one of before, as a node does that has not heard of the newest.
//
// What is checked:
//
//   - Each replica goes by the newest definition that the entries up to its own have, those of the group from
//     which its group was split too. It has none of the definitions that came later with an older revision.
//   - Items that say that they live for ever are there under each default, and so are items without a time of
//     their own in runs whose defaults are longer than the run. Counters live for ever.
//   - What has expired under one default does not come back under another.
//   - When faults end, each group comes to the newest definition.
//
// What is decided here follows from a source of random numbers of its own, so a run without changes is the
// same as it would be if there were none in any run.

// defaults are the default times to live of a run.
type defaults struct {
	w       *world
	rng     *rand.Rand
	choices []int64 // in seconds; nil: the default does not change in this run
	made    []command.TTL
	entries map[uint64]map[uint64]command.TTL // that change the default, of each group
}

// shortTTL is a default, in seconds, by which items expire within a run.
const shortTTL = 3

func (d *defaults) begin(w *world) {
	*d = defaults{w: w, rng: rand.New(rand.NewPCG(w.seed, 0x771)), entries: make(map[uint64]map[uint64]command.TTL)}
	if d.rng.Float64() > 0.3 {
		return
	}
	d.choices = []int64{cluster.NoExpiry, 0, 3600}
	if d.rng.IntN(2) == 0 {
		d.choices = append(d.choices, shortTTL)
	}
	d.planChange()
}

// change reports whether the default changes in this run.
func (d *defaults) change() bool { return d.choices != nil }

// oneIn returns true once in n times, if the default changes.
func (d *defaults) oneIn(n int) bool { return d.change() && d.rng.IntN(n) == 0 }

// forEver returns what the document of an item has that lives for ever under each default: nothing where the
// default does not change.
func (d *defaults) forEver() string {
	if d.change() {
		return `,"ttl":-1`
	}
	return ""
}

// short reports whether items without a time of their own may have expired.
func (d *defaults) short() bool {
	return slices.ContainsFunc(d.made, func(t command.TTL) bool { return t.Seconds == shortTTL })
}

// newest returns the newest definition, with revision 0 if there is none.
func (d *defaults) newest() (t command.TTL) {
	if n := len(d.made); n > 0 {
		t = d.made[n-1]
	}
	return t
}

// planChange plans the next change.
func (d *defaults) planChange() {
	d.w.after(time.Duration(d.rng.ExpFloat64()*float64(2*time.Second)), func() {
		if d.w.calm {
			return
		}
		t := command.TTL{Revision: uint64(len(d.made)) + 1, Seconds: d.choices[d.rng.IntN(len(d.choices))]}
		d.made = append(d.made, t)
		d.w.note("the default time to live is to be %d s, revision %d", t.Seconds, t.Revision)
		d.w.counts["defaults"]++
		d.planChange()
	})
}

// propose has a leader propose a definition that its group may lack.
func (d *defaults) propose(l *replica) {
	if l.gone() || l.group.TTLRevision() == d.newest().Revision {
		return
	}
	t := d.newest()
	if d.oneIn(4) {
		t = d.made[d.rng.IntN(len(d.made))]
	}
	if err := l.group.ProposeTTL(t); err != nil && !errors.Is(err, group.ErrNotLeader) && !errors.Is(err, group.ErrBusy) {
		l.check(err)
		return
	}
	l.pump()
}

// decided notes the definitions and the splits in entries of a group.
func (w *world) decided(gid uint64, entries []*pb.Entry) {
	d := &w.defaults
	for _, e := range entries {
		switch c := controlOf(e); {
		case c == nil:
		case c.Split != nil:
			w.region.parents[c.Split.Right] = parent{gid, e.GetIndex()}
		case c.TTL != nil:
			if d.entries[gid] == nil {
				d.entries[gid] = make(map[uint64]command.TTL)
			}
			d.entries[gid][e.GetIndex()] = *c.TTL
			w.counts["defaults applied"]++
		}
	}
}

// at returns the definition that a group goes by at an entry.
func (d *defaults) at(gid, index uint64) command.TTL {
	t := command.TTL{Seconds: cluster.NoExpiry}
	if up, split := d.w.region.parents[gid]; split {
		t = d.at(up.gid, up.index)
	}
	for at, changed := range d.entries[gid] {
		if at <= index && changed.Revision > t.Revision {
			t = changed
		}
	}
	return t
}

// compare checks which definition a replica goes by.
func (d *defaults) compare(r *replica) {
	if !d.change() {
		return
	}
	want := d.at(r.gid, r.group.Held())
	has, err := r.c.AppliedTTL(r.group.Partition())
	if r.check(err); err != nil || !r.up {
		return
	}
	ttl := cluster.TTLOf(want.Seconds)
	if has.Revision != want.Revision || has.TTL != ttl || r.group.TTLRevision() != want.Revision {
		d.w.violated("node %d: group %d: at entry %d its default time to live is %v of revision %d, the group's revision is %d, and should be %v of revision %d",
			r.node.id, r.gid, r.group.Held(), has.TTL, has.Revision, r.group.TTLRevision(), ttl, want.Revision)
	}
}

// forget forgets the entries of a group past one, which a promotion may lose.
func (d *defaults) forget(gid, after uint64) {
	maps.DeleteFunc(d.entries[gid], func(at uint64, _ command.TTL) bool { return at > after })
}
