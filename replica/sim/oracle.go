package sim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/command"
)

// oracle knows what has happened, and judges it.
type oracle struct {
	groups  map[uint64]*groupFacts
	clock   int64 // of operations: no two times are equal
	ops     []*operation
	past    [][]*operation // before promotions
	counter [counters][]*increment
	made    [counters]place // the entries that decided that the counters are there
	tried   [counters]bool  // a command of which nobody knows whether it was carried out may have made them before
}

// groupFacts are what is known of a group.
type groupFacts struct {
	entries map[uint64]uint64   // hash of each applied entry
	digests map[uint64][32]byte // of the partition at an entry
	leaders map[uint64]uint64   // of each term
	highest uint64
	confAt  uint64          // the entry up to which
	now     map[uint64]bool // these are members
	ever    map[uint64]bool
}

func (o *oracle) begin() { o.groups = make(map[uint64]*groupFacts) }

func (o *oracle) of(gid uint64) *groupFacts {
	f := o.groups[gid]
	if f == nil {
		f = &groupFacts{
			entries: make(map[uint64]uint64), digests: make(map[uint64][32]byte), leaders: make(map[uint64]uint64),
			now: make(map[uint64]bool), ever: make(map[uint64]bool),
		}
		o.groups[gid] = f
	}
	return f
}

// gids returns the groups that there are.
func (o *oracle) gids() []uint64 { return slices.Sorted(maps.Keys(o.groups)) }

// newest returns the newest entry that a replica of a group has applied.
func (o *oracle) newest(gid uint64) uint64 { return o.of(gid).highest }

// entries returns how many entries there are.
func (o *oracle) entries() (n uint64) {
	for _, f := range o.groups {
		n += uint64(len(f.entries))
	}
	return n
}

// leads notes that a replica leads in a term.
func (o *oracle) leads(w *world, gid, term, id uint64) {
	f := o.of(gid)
	if was, found := f.leaders[term]; found && was != id {
		w.violated("group %d: replicas %d and %d lead in term %d", gid, was, id, term)
	} else if !found {
		f.leaders[term] = id
		w.note("group %d: replica %d leads in term %d", gid, id, term)
		w.counts["leaders"]++
	}
}

// members notes who is a member, as far as a replica has applied.
func (o *oracle) members(r *replica) {
	at := r.group.Applied()
	if at == 0 {
		return
	}
	conf, f := r.group.Config(), o.of(r.gid)
	now := make(map[uint64]bool)
	for _, ids := range [][]uint64{conf.GetVoters(), conf.GetLearners(), conf.GetVotersOutgoing(), conf.GetLearnersNext()} {
		for _, id := range ids {
			now[id], f.ever[id] = true, true
		}
	}
	if at >= f.confAt {
		f.confAt, f.now = at, now
	}
}

// removed reports whether a group has removed a replica.
func (o *oracle) removed(gid, id uint64) bool {
	f := o.of(gid)
	return f.ever[id] && !f.now[id]
}

// applied notes that a replica has applied entries.
func (o *oracle) applied(r *replica, entries []*pb.Entry) {
	f := o.of(r.gid)
	for _, e := range entries {
		if e.GetType() == pb.EntryNormal && len(e.GetData()) > 0 {
			if commands, err := command.DecodeEntry(e.GetData()); err == nil && len(commands) > 1 {
				r.w.counts["gathered"]++
			}
		}
		sum, index := sumOf(e), e.GetIndex()
		r.w.note("node %d: group %d: applied entry %d of term %d, %v, %d bytes", r.node.id, r.gid, index, e.GetTerm(), e.GetType(), len(e.GetData()))
		if was, found := f.entries[index]; found && was != sum {
			r.w.violated("node %d: group %d: entry %d is not what another replica has applied", r.node.id, r.gid, index)
		}
		f.entries[index] = sum
		f.highest = max(f.highest, index)
	}
	o.members(r)
	r.w.decided(r.gid, entries)
	if r.group.Held()%8 == 0 || splits(entries) {
		o.compare(r)
	}
}

// sumOf returns a hash of an entry.
func sumOf(e *pb.Entry) uint64 {
	h := fnv.New64a()
	var b [9]byte
	binary.LittleEndian.PutUint64(b[:], e.GetTerm())
	b[8] = byte(e.GetType())
	h.Write(b[:])
	h.Write(e.GetData())
	return h.Sum64()
}

// compare compares the content of a replica with that of others at the same entry.
func (o *oracle) compare(r *replica) {
	f := o.of(r.gid)
	if !r.whole() {
		r.w.counts["cut ahead"]++
		return
	}
	at, sum := r.digest()
	if !r.up {
		return // it has crashed meanwhile
	}
	if at != r.group.Held() {
		r.w.violated("node %d: group %d: the partition is at entry %d, the group at %d", r.node.id, r.gid, at, r.group.Held())
	}
	if was, found := f.digests[at]; found && was != sum {
		r.w.violated("node %d: group %d: at entry %d its content differs from that of another replica", r.node.id, r.gid, at)
	}
	f.digests[at] = sum
	r.w.defaults.compare(r)
}

// operation is a read or write of a register by a client.
type operation struct {
	client int
	in     registerInput
	out    int
	call   int64
	ret    int64 // math.MaxInt64: it may have its effect at any time behind call
	at     place
}

type registerInput struct {
	key     int
	write   bool
	value   int
	expires bool // it has a time to live of its own
	unsaid  bool // it has the default one
}

// begins notes that a client begins an operation.
func (o *oracle) begins(client int, in registerInput) *operation {
	o.clock++
	op := &operation{client: client, in: in, call: o.clock, ret: math.MaxInt64}
	o.ops = append(o.ops, op)
	return op
}

// ends notes the end of an operation, at an entry. It is the zero value if the outcome is not known.
func (op *operation) ends(w *world, value int, at place) {
	o := &w.oracle
	o.clock++
	op.out, op.at = value, at
	if at.known() {
		op.ret = o.clock
	}
}

// increment is an increment of a counter: it sets one digit of the counter, to the base 4, to 1.
type increment struct {
	by          float64
	at          place
	least, most int64 // how often it was carried out: 1 and 1 if it was acknowledged
}

// increment returns the next increment of a counter, nil if it has come to its end.
func (o *oracle) increment(k int) *increment {
	if len(o.counter[k]) == perCounter {
		return nil
	}
	inc := &increment{by: math.Pow(4, float64(len(o.counter[k]))), most: 1}
	o.counter[k] = append(o.counter[k], inc)
	return inc
}

// registerState is what a register has. One that expires may become 0 at any time, for good.
type registerState struct {
	value   int
	expires bool
}

// registerModel is what a register does.
var registerModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, registers)
		for _, op := range history {
			k := op.Input.(registerInput).key
			parts[k] = append(parts[k], op)
		}
		return parts
	},
	Init: func() any { return registerState{} },
	Step: func(state, input, output any) (bool, any) {
		s := state.(registerState)
		if in := input.(registerInput); in.write {
			return true, registerState{in.value, in.expires}
		}
		if s.expires && output.(int) == 0 {
			return true, registerState{}
		}
		return output.(int) == s.value, state
	},
	DescribeOperation: func(input, output any) string {
		in := input.(registerInput)
		if in.write {
			return fmt.Sprintf("write %d", in.value)
		}
		return fmt.Sprintf("read %d", output.(int))
	},
}

// judge judges a run that has ended: all replicas that are left are at the newest entry.
func (o *oracle) judge(w *world) {
	for _, n := range w.nodes {
		for _, r := range n.replicas {
			if n.up && n.present() && r.group.Held() > 0 {
				if !r.whole() {
					w.violated("node %d: group %d: its partition does not have the range of the group", n.id, r.gid)
				}
				o.compare(r)
			}
		}
	}
	w.admin.absent()
	number := func(key engine.PartitionKey, id, path string) int64 {
		for _, n := range w.nodes {
			if !n.up || !n.present() {
				continue
			}
			r := n.covering(key)
			if r == nil {
				continue
			}
			// A machine with flipped bits may find that out now, and has said nothing then.
			if v := r.number(key, id, path); n.up {
				return v
			}
		}
		w.violated("nobody has %s", key)
		return 0
	}
	for k := range registers {
		op := o.begins(-1, registerInput{key: k})
		op.ends(w, int(number(registerKey(k), fmt.Sprintf("r%d", k), "/v")), atEnd)
	}
	for _, ops := range append(o.past, o.ops) {
		o.linearizable(w, ops)
	}
	for k := range counters {
		o.count(w, k, number(counterKey, fmt.Sprintf("c%d", k), "/n"))
	}
}

// atEnd is the place of what is read when all is over: behind everything.
var atEnd = place{gid: math.MaxUint64, index: math.MaxUint64}

// count judges what a counter has. From then on each increment was carried out as often as it has it.
func (o *oracle) count(w *world, k int, sum int64) {
	for i, inc := range o.counter[k] {
		digit := sum % 4
		sum /= 4
		if digit < inc.least || digit > inc.most {
			w.violated("increment %d of counter %d was carried out %d times, and should be %d to %d times; entry %v", i, k, digit, inc.least, inc.most, inc.at)
		}
		inc.least, inc.most = digit, digit
	}
	if sum != 0 {
		w.violated("counter %d has what nobody has added", k)
	}
}

// linearizable judges the registers.
func (o *oracle) linearizable(w *world, ops []*operation) {
	var history []porcupine.Operation
	for _, op := range ops {
		if !op.in.write && op.ret == math.MaxInt64 {
			continue // a read without an answer says nothing
		}
		in := op.in
		in.expires = in.expires || in.unsaid && w.defaults.short()
		history = append(history, porcupine.Operation{ClientId: op.client + 1, Input: in, Output: op.out, Call: op.call, Return: op.ret})
	}
	switch porcupine.CheckOperationsTimeout(registerModel, history, 30*time.Second) {
	case porcupine.Illegal:
		w.violated("the registers are not linearizable: %s", o.tell(history))
	case porcupine.Unknown:
		w.violated("it takes too long to judge %d operations", len(history))
	}
}

// tell describes the first register whose history is not linearizable.
func (o *oracle) tell(history []porcupine.Operation) string {
	for _, part := range registerModel.Partition(history) {
		if porcupine.CheckOperations(registerModel, part) {
			continue
		}
		var b strings.Builder
		for _, op := range part {
			fmt.Fprintf(&b, "[%d, %d] %d: %s; ", op.Call, op.Return, op.ClientId-1, registerModel.DescribeOperation(op.Input, op.Output))
		}
		return b.String()
	}
	return ""
}

// numberOf returns the number at a path of one name.
func numberOf(doc []byte, path string) (int64, error) {
	var m map[string]any
	if err := json.Unmarshal(doc, &m); err != nil {
		return 0, err
	}
	f, ok := m[path[1:]].(float64)
	if !ok {
		return 0, fmt.Errorf("no number at %s", path)
	}
	return int64(f), nil
}
