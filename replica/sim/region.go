package sim

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/internal/mutant"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// In some runs one or two machines are in another region. They have a reader of each group: a replica
// that does not vote. At some time all machines of the region of the voters are down at once. If the readers have
// each key once, that region is promoted, as pnode promote does: each group goes on with the reader that
// has most of it as its only voter, in the next incarnation of the cluster. Some machines of before come
// back later, with the description of before.
//
// What is checked:
//
//   - What was shown: each write that is lost was acknowledged after the last confirmation of the reader
//     that goes on began, and each reader goes on with all entries of its log, as was said of it.
//   - What is lost is exactly what is past these entries. A counter has the increments that are kept and
//     none of those that are lost; it is gone only if its making is. What was done with registers up to
//     there, and what they have after the promotion, is linearizable. The reader's log may have more: entries
//     that nobody applied, as a leader of before had sent them. It goes on with these too, so a command that was
//     acknowledged with another entry, and is lost there, may have its effect with one of them.
//   - Until the promotion, and from then on, registers are linearizable, each by itself. The second
//     history begins with what the readers had, and with counters that are made again if they are gone.
//   - Machines of the incarnation before end when they meet one of the present one, and clients of the
//     present one get nothing from them.

// region is what has become of the regions.
type region struct {
	w           *world
	incarnation int
	deciding    bool // the region of the voters is lost, and the other one is not promoted yet
	tries       int
	acked       []acked
	parents     map[uint64]parent   // of right groups, as far as their splits were applied
	rest        map[command.ID]bool // commands of entries that a promoted log has past those that were applied
}

// acked is a write that a client was told of.
type acked struct {
	key engine.PartitionKey
	place
	at time.Duration
}

// parent is the group that a group was split from, and the entry of the split.
type parent struct{ gid, index uint64 }

// shown is what is shown of a group before a promotion.
type shown struct {
	span      partmap.Range
	confirmed time.Duration // 0: not known
	applied   uint64
	last      uint64 // entry that the reader's log has
}

// numbers are what registers and counters have after a promotion. What is not there is not in them.
type numbers struct {
	registers, counters map[int]int64
}

// confirmTicks is how often a reader has a quorum confirm that it has everything, as in package host.
const confirmTicks = 20

// confirm has the readers of a machine find out what they have.
func (n *node) confirm() {
	if n.ticks++; n.ticks%confirmTicks != 0 || n.incarnation > 0 {
		return
	}
	for _, r := range slices.Clone(n.replicas) {
		if r.gone() || r.group.Applied() == 0 || !n.up {
			continue
		}
		begun := n.w.now
		id, err := r.group.Read()
		if n.check(err); !n.up {
			return
		}
		r.reads[id] = func() { r.confirmed = max(r.confirmed, begun) }
		r.pump()
		n.plan(confirmTicks*tick, func() {
			if r.reads[id] != nil {
				delete(r.reads, id)
				r.group.EndRead(id)
			}
		})
	}
}

// serves reports whether clients of the present incarnation get answers of a machine.
func (g *region) serves(n *node) bool {
	return n.incarnation == g.incarnation || mutant.On(mutant.MixedIncarnations)
}

// meet reports whether a machine hears what another one has sent when it was of an incarnation. Of two that
// meet and are of different ones, the one of before ends, for good.
func (g *region) meet(from, to *node, sent int) bool {
	if from == nil || to == nil || mutant.On(mutant.MixedIncarnations) {
		return true
	}
	if older := min(from.incarnation, to.incarnation); older < max(from.incarnation, to.incarnation) {
		for _, n := range []*node{from, to} {
			if n.incarnation == older && n.up {
				g.w.note("node %d: it is superseded", n.id)
				g.w.counts["superseded"]++
				n.giveUp()
			}
		}
		return false
	}
	return sent == to.incarnation
}

// settled reports whether nothing is to be decided.
func (g *region) settled() bool {
	return !g.deciding && !slices.ContainsFunc(g.w.nodes, func(n *node) bool { return n.away && !n.lost })
}

// loseRegion loses all machines of the region of the voters.
func (w *world) loseRegion() {
	g := &w.region
	if w.calm {
		return
	}
	if len(w.clients) < 2 { // the counters are to be made first
		w.after(time.Second, w.loseRegion)
		return
	}
	w.note("the region of the voters is lost")
	w.counts["lost regions"]++
	g.deciding = true
	for _, n := range w.nodes {
		if n.far || n.lost {
			continue
		}
		n.away = true
		if n.up {
			n.down(n.remains())
		}
	}
	w.after(w.about(2*time.Second), w.promoteRegion)
}

// promoteRegion promotes the other region, if that has each key once.
func (w *world) promoteRegion() {
	g := &w.region
	best := make(map[uint64]*replica)
	for _, n := range w.nodes {
		if !n.far || !n.up {
			continue
		}
		for _, r := range n.replicas {
			if r.group.Applied() > 0 && (best[r.gid] == nil || r.more(best[r.gid])) {
				best[r.gid] = r
			}
		}
	}
	if !whole(best) {
		if g.tries++; g.tries < 8 {
			w.after(500*time.Millisecond, w.promoteRegion)
			return
		}
		w.note("the region of the voters comes back: the other one does not have each key once")
		w.counts["promotions refused"]++
		g.deciding = false
		for _, n := range w.nodes {
			if n.away {
				n.away = false
				n.start()
			}
		}
		return
	}
	w.promote(best)
}

// more reports whether a replica has more of a group than another one, as Raft judges logs.
func (r *replica) more(o *replica) bool {
	last := func(r *replica) (term, index uint64) {
		log := r.log.Group(r.gid)
		index, _ = log.LastIndex() // never fails
		term, err := log.Term(index)
		r.check(err)
		return term, index
	}
	term, index := last(r)
	others, other := last(o)
	return cmp.Or(cmp.Compare(term, others), cmp.Compare(index, other), cmp.Compare(r.group.Applied(), o.group.Applied())) > 0
}

// whole reports whether groups have each key once.
func whole(groups map[uint64]*replica) bool {
	var spans []partmap.Range
	for _, r := range groups {
		span, _ := r.group.Range()
		spans = append(spans, span)
	}
	slices.SortFunc(spans, func(a, b partmap.Range) int { return a.Min.Compare(&b.Min) })
	next := partmap.MinEPK()
	for _, span := range spans {
		if span.Min != next {
			return false
		}
		next = span.Max
	}
	return next == partmap.MaxEPK()
}

// promote has groups go on with one replica each.
func (w *world) promote(best map[uint64]*replica) {
	g := &w.region
	w.note("promotion")
	w.counts["promotions"]++
	g.deciding = false
	g.incarnation++
	said := make(map[uint64]shown, len(best))
	stay := make(map[*node]map[uint64]uint64)
	for gid, r := range best {
		span, _ := r.group.Range()
		last, _ := r.log.Group(gid).LastIndex() // never fails
		said[gid] = shown{span, r.confirmed, r.group.Applied(), last}
		if stay[r.node] == nil {
			stay[r.node] = make(map[uint64]uint64)
		}
		stay[r.node][gid] = r.id
	}
	have := numbers{make(map[int]int64), make(map[int]int64)}
	kept := make(map[uint64]uint64) // of each group: the newest of its entries that were applied before
	g.rest = make(map[command.ID]bool)
	for _, n := range w.nodes {
		switch {
		case n.far:
			n.enter(stay[n], &have, kept)
		case n.lost:
		case w.chance(0.5):
			n.giveUp()
		default: // it has the old description
			w.after(w.about(3*time.Second), func() {
				n.away = false
				w.note("node %d comes back", n.id)
				w.counts["returns"]++
				n.start()
			})
		}
	}
	g.lose(said, kept)
	w.oracle.promoted(w, kept, &have)
	w.admin.promoted()
	for _, n := range w.nodes {
		if n.far {
			n.far = false
			n.start()
		}
	}
	var left []int
	for _, c := range w.clients {
		if !c.finished {
			left = append(left, c.left)
		}
		c.ended, c.finished = true, true
	}
	w.newClient(len(w.clients)+1).makeCounters(0, func() {
		for _, ops := range left {
			c := w.newClient(len(w.clients) + 1)
			c.left = ops
			w.after(w.about(time.Second), c.next)
		}
	})
}

// enter has the machine enter the next incarnation, as a host does when it is opened with the
// description of that. Crashes interrupt it. It notes what registers and counters have, and up to which entry each
// group has what was applied before.
func (n *node) enter(stay map[uint64]uint64, have *numbers, kept map[uint64]uint64) {
	w := n.w
	n.up = false
	n.life++
	n.fullUntil, n.stallUntil = w.now, w.now
	n.setDisk(n.mem.Kill())
	dropped := false // node.json has it
	for crashes := 0; ; {
		if crashes < 3 && w.chance(0.4) {
			n.crashIn = 1 + w.rng.IntN(40)
		}
		err := n.openStores(false)
		if err == nil && !dropped {
			if err = group.DropOthers(context.Background(), n.log, stay, n.openGroup); err == nil {
				dropped = true
			}
		}
		if err == nil {
			_, err = group.TakeOverAll(context.Background(), n.log, n.openGroup)
		}
		switch {
		case n.image != nil:
			crashes++
			w.counts["crashes while promoted"]++
			n.setDisk(n.image)
			continue
		case errors.Is(err, group.ErrRetry):
			n.clock = 5 * time.Minute // it waits, and is started again
			n.setDisk(n.mem.Kill())
			continue
		case err != nil:
			w.violated("node %d: promotion: %v", n.id, err)
		}
		break
	}
	n.crashIn = 0
	note := func(numbers map[int]int64, k int, key engine.PartitionKey, id, path string) {
		it, err := n.c.Read(context.Background(), key, id)
		if err == nil {
			numbers[k], err = numberOf(it.Body, path)
		}
		if err != nil && !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, engine.ErrNotHere) {
			w.violated("node %d: %s: %v", n.id, id, err)
		}
	}
	for k := range registers {
		note(have.registers, k, registerKey(k), "r"+strconv.Itoa(k), "/v")
	}
	for k := range counters {
		note(have.counters, k, counterKey, "c"+strconv.Itoa(k), "/n")
	}
	for _, log := range n.log.Groups() {
		kept[log.ID()] = w.oracle.common(w, log)
		w.region.leave(log, kept[log.ID()])
	}
	if err := errors.Join(n.log.Close(), n.db.Close()); err != nil {
		w.violated("node %d: promotion: %v", n.id, err)
	}
	n.incarnation = w.region.incarnation
}

// common returns the newest entry up to which a log has what replicas have applied. What is before the
// base of the log this replica has applied, and that was compared.
func (o *oracle) common(w *world, log *raftlog.Group) uint64 {
	at := log.Base().Index
	last, err := log.LastIndex()
	for same := true; same && err == nil && at < last; {
		entries, failed := log.Entries(at+1, last+1, math.MaxUint64) // not always all
		err = failed
		for _, e := range entries {
			sum, found := o.of(log.ID()).entries[e.GetIndex()]
			if same = found && sum == sumOf(e); !same {
				break
			}
			at = e.GetIndex()
		}
	}
	if err != nil {
		w.violated("group %d: %v", log.ID(), err)
	}
	return at
}

// leave notes the commands that a promoted log has past an entry, and what else is decided there.
func (g *region) leave(log *raftlog.Group, past uint64) {
	g.w.defaults.forget(log.ID(), past)
	last, err := log.LastIndex()
	for at := past; err == nil && at < last; {
		var entries []*pb.Entry
		if entries, err = log.Entries(at+1, last+1, math.MaxUint64); len(entries) == 0 {
			break
		}
		g.w.decided(log.ID(), entries)
		for _, e := range entries {
			at = e.GetIndex()
			if e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 || command.IsControl(e.GetData()) {
				continue
			}
			all, bad := command.DecodeEntry(e.GetData())
			err = cmp.Or(err, bad)
			for _, c := range all {
				g.rest[c.ID] = true
			}
		}
	}
	if err != nil {
		g.w.violated("group %d: %v", log.ID(), err)
	}
}

// keeps reports whether a promotion keeps an entry.
func (g *region) keeps(p place, kept map[uint64]uint64) bool {
	for {
		_, here := kept[p.gid]
		up, split := g.parents[p.gid]
		if here || !split || p.index > up.index {
			break
		}
		p.gid = up.gid // what the right half had before the split
	}
	at, here := kept[p.gid]
	return here && p.index <= at
}

// lose judges what is lost, by what was shown before.
func (g *region) lose(said map[uint64]shown, kept map[uint64]uint64) {
	w := g.w
	for gid, s := range said {
		if at, here := kept[gid]; !here || at < s.applied || at > s.last {
			w.violated("group %d: it goes on with entry %d, %v; shown were %d, and %d of the log", gid, at, here, s.applied, s.last)
		}
	}
	for _, a := range g.acked {
		if g.keeps(a.place, kept) || g.rest[a.by] {
			continue
		}
		w.counts["lost writes"]++
		epk := a.key.EPK()
		for _, s := range said {
			if s.span.Contains(&epk) && s.confirmed > a.at {
				w.violated("group %d: a write of %s in entry %d was acknowledged at %v, before the confirmation of %v, and is lost: entries are kept up to %v", a.gid, a.key, a.index, a.at, s.confirmed, kept)
			}
		}
	}
	g.acked = nil
}

// promoted begins a new history: of groups that go on up to an entry, with what registers and counters have.
func (o *oracle) promoted(w *world, kept map[uint64]uint64, have *numbers) {
	for gid, f := range o.groups {
		at, here := kept[gid]
		if !here {
			delete(o.groups, gid)
			continue
		}
		for index := range f.entries {
			if index > at {
				delete(f.entries, index)
			}
		}
		for index := range f.digests {
			if index > at {
				delete(f.digests, index)
			}
		}
		f.highest, f.confAt = at, 0
		clear(f.leaders)
		clear(f.now)
		clear(f.ever)
	}
	for gid := range kept {
		o.of(gid)
	}
	before := o.ops
	o.past, o.ops = append(o.past, before), nil
	for _, op := range before {
		if !op.at.known() || w.region.keeps(op.at, kept) {
			o.ops = append(o.ops, op)
		} else if w.region.rest[op.at.by] {
			later := *op
			later.ret = math.MaxInt64
			o.ops = append(o.ops, &later)
		}
	}
	for k := range registers {
		o.begins(-1, registerInput{key: k}).ends(w, int(have.registers[k]), atEnd)
	}
	o.past, o.ops = append(o.past, o.ops), nil // a prefix of what was done, and what there is
	for k := range registers {
		v := int(have.registers[k])
		if v == 0 {
			continue
		}
		at := slices.IndexFunc(before, func(op *operation) bool { return op.in.write && op.in.key == k && op.in.value == v })
		if at < 0 {
			w.violated("register %d has %d, which nobody has written", k, v)
		}
		o.begins(-1, before[at].in).ends(w, v, atEnd)
	}
	for k, made := range o.made {
		for _, inc := range o.counter[k] {
			if inc.at.known() && !w.region.keeps(inc.at, kept) {
				inc.least, inc.most = 0, 0
				if w.region.rest[inc.at.by] {
					inc.most = 1
				}
			}
		}
		sum, here := have.counters[k]
		if keeps := w.region.keeps(made, kept); here != keeps && !w.region.rest[made.by] && !(here && o.tried[k]) {
			w.violated("counter %d is there: %v; its making in entry %v is kept: %v", k, here, made, keeps)
		}
		if !here {
			w.counts["lost counters"]++
		}
		o.count(w, k, sum)
	}
}

// promoted forgets what was under way.
func (a *admin) promoted() {
	clear(a.coming)
	clear(a.instead)
	clear(a.reach)
	clear(a.known)
}

// voting returns the learners that are to vote.
func (a *admin) voting(learners []uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(learners), func(id uint64) bool { return a.w.owner[id].far })
}

// reader returns a machine that is to have a reader of a group, nil if none is, or none can.
func (a *admin) reader(l *replica) *node {
	w := a.w
	for _, id := range l.group.Config().GetLearners() {
		if w.owner[id].far {
			return nil
		}
	}
	span, _ := l.group.Range()
	for _, n := range w.nodes {
		if n.far && n.up && n.free(l.gid, span) {
			return n
		}
	}
	return nil
}

// free reports whether a machine has no part of a range, and never had a replica of the group.
func (n *node) free(gid uint64, span partmap.Range) bool {
	return n.log.Group(gid) == nil && !slices.ContainsFunc(n.replicas, func(r *replica) bool {
		own, _ := r.group.Range()
		return own.Overlaps(span)
	})
}
