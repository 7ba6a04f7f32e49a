package sim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/replica/command"
)

// oracle knows what has happened, and judges it.
type oracle struct {
	entries map[uint64]uint64 // hash of each applied entry
	digests map[uint64]uint64 // of the partition at an entry
	leaders map[uint64]uint64 // of each term
	highest uint64
	clock   int64 // of operations: no two times are equal
	ops     []*operation
	counter [counters][]*increment
}

func (o *oracle) begin() {
	o.entries, o.digests, o.leaders = make(map[uint64]uint64), make(map[uint64]uint64), make(map[uint64]uint64)
}

// newest returns the newest entry that a replica has applied.
func (o *oracle) newest() uint64 { return o.highest }

// leads notes that a replica leads in a term.
func (o *oracle) leads(w *world, term, id uint64) {
	if was, found := o.leaders[term]; found && was != id {
		w.violated("replicas %d and %d lead in term %d", was, id, term)
	} else if !found {
		o.leaders[term] = id
		w.note("replica %d: leads in term %d", id, term)
		w.counts["leaders"]++
	}
}

// applied notes that a replica has applied entries.
func (o *oracle) applied(n *node, entries []*pb.Entry) {
	for _, e := range entries {
		if e.GetType() == pb.EntryNormal && len(e.GetData()) > 0 {
			if commands, err := command.DecodeEntry(e.GetData()); err == nil && len(commands) > 1 {
				n.w.counts["gathered"]++
			}
		}
		h := fnv.New64a()
		var b [9]byte
		binary.LittleEndian.PutUint64(b[:], e.GetTerm())
		b[8] = byte(e.GetType())
		h.Write(b[:])
		h.Write(e.GetData())
		sum, index := h.Sum64(), e.GetIndex()
		if was, found := o.entries[index]; found && was != sum {
			n.w.violated("replica %d: entry %d is not what another replica has applied", n.id, index)
		}
		o.entries[index] = sum
		o.highest = max(o.highest, index)
	}
	if n.group.Held()%8 == 0 {
		o.compare(n)
	}
}

// compare compares the content of a replica with that of others at the same entry.
func (o *oracle) compare(n *node) {
	at, sum := n.group.Held(), n.digest()
	if !n.up {
		return // it has crashed meanwhile
	}
	if was, found := o.digests[at]; found && was != sum {
		n.w.violated("replica %d: at entry %d its content differs from that of another replica", n.id, at)
	}
	o.digests[at] = sum
}

// operation is a read or write of a register by a client.
type operation struct {
	client int
	in     registerInput
	out    int
	call   int64
	ret    int64 // math.MaxInt64: it may have its effect at any time behind call
}

type registerInput struct {
	key   int
	write bool
	value int
}

// begins notes that a client begins an operation.
func (o *oracle) begins(client, key int, write bool, value int) *operation {
	o.clock++
	op := &operation{client: client, in: registerInput{key, write, value}, call: o.clock, ret: math.MaxInt64}
	o.ops = append(o.ops, op)
	return op
}

// ends notes the end of an operation. known is false if its outcome is not known.
func (op *operation) ends(w *world, value int, known bool) {
	o := &w.oracle
	o.clock++
	op.out = value
	if known {
		op.ret = o.clock
	}
}

// increment is an increment of a counter: it sets one digit of the counter, to the base 4, to 1.
type increment struct {
	by    float64
	known bool // it was acknowledged
}

// increment returns the next increment of a counter, nil if it has come to its end.
func (o *oracle) increment(k int) *increment {
	if len(o.counter[k]) == perCounter {
		return nil
	}
	inc := &increment{by: math.Pow(4, float64(len(o.counter[k])))}
	o.counter[k] = append(o.counter[k], inc)
	return inc
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
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(registerInput); in.write {
			return true, in.value
		}
		return output.(int) == state.(int), state
	},
	DescribeOperation: func(input, output any) string {
		in := input.(registerInput)
		if in.write {
			return fmt.Sprintf("write %d", in.value)
		}
		return fmt.Sprintf("read %d", output.(int))
	},
}

// judge judges a run that has ended: all replicas that are left are at the same entry.
func (o *oracle) judge(w *world) {
	var some *node
	for _, n := range w.nodes {
		if !n.lost {
			o.compare(n)
			some = n
		}
	}
	for k := range registers {
		op := o.begins(-1, k, false, 0)
		op.ends(w, int(some.number(registerKey(k), fmt.Sprintf("r%d", k), "/v")), true)
	}
	var history []porcupine.Operation
	for _, op := range o.ops {
		if !op.in.write && op.ret == math.MaxInt64 {
			continue // a read without an answer says nothing
		}
		history = append(history, porcupine.Operation{ClientId: op.client + 1, Input: op.in, Output: op.out, Call: op.call, Return: op.ret})
	}
	switch porcupine.CheckOperationsTimeout(registerModel, history, 30*time.Second) {
	case porcupine.Illegal:
		w.violated("the registers are not linearizable: %s", o.tell(history))
	case porcupine.Unknown:
		w.violated("it takes too long to judge %d operations", len(history))
	}
	for k := range counters {
		sum := some.number(counterKey, fmt.Sprintf("c%d", k), "/n")
		for i, inc := range o.counter[k] {
			digit := sum % 4
			sum /= 4
			if digit > 1 || inc.known && digit != 1 {
				w.violated("increment %d of counter %d was carried out %d times, acknowledged: %v", i, k, digit, inc.known)
			}
		}
		if sum != 0 {
			w.violated("counter %d has what nobody has added", k)
		}
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
