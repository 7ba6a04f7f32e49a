package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// An item is a register that holds an etag, 0 while there is none. A history of it
// is linearizable if its operations, each at one moment between its call and its
// return, one after the other give the outcomes that they had.

// registerOp is an operation on a register.
type registerOp struct {
	call, ret int64 // on a clock that all goroutines share
	unknown   bool  // whether it has happened: a crash came before it returned
	verb      verb  // verbNone: a read
	match     ETag  // of IfMatch; 0: none
	got       ETag  // what a read found, or a write left
	err       error // ErrExists, ErrNotFound, ErrPrecondition; nil: it succeeded
}

// verbNone is the verb of a read.
const verbNone = verb(0xFF)

// step returns what the register holds after the operation; false: it cannot have
// had that outcome.
func (op *registerOp) step(now ETag) (ETag, bool) {
	if op.verb == verbNone {
		return now, op.got == now
	}
	var want error
	switch {
	case op.verb == verbCreate && now != 0:
		want = ErrExists
	case (op.verb == verbReplace || op.verb == verbDelete || op.verb == verbPatch) && now == 0:
		want = ErrNotFound
	case op.match != 0 && op.match != now:
		want = ErrPrecondition
	}
	if !errors.Is(op.err, want) {
		return now, false
	}
	if want != nil {
		return now, true
	}
	return op.got, true
}

// registerEvent is the call or the return of an operation, in a list by time.
type registerEvent struct {
	op         int
	time       int64
	ret        *registerEvent // of a call; nil: it has not returned
	call       bool
	prev, next *registerEvent
}

func (e *registerEvent) lift() {
	e.prev.next = e.next
	if e.next != nil {
		e.next.prev = e.prev
	}
}

func (e *registerEvent) unlift() {
	e.prev.next = e
	if e.next != nil {
		e.next.prev = e
	}
}

// linearizable searches an order for a history, depth first, without trying what
// it has found to fail (Wing and Gong, and Lowe).
func linearizable(ops []registerOp) bool {
	var events []*registerEvent
	for i := range ops {
		call := &registerEvent{op: i, time: ops[i].call, call: true}
		events = append(events, call)
		if !ops[i].unknown {
			call.ret = &registerEvent{op: i, time: ops[i].ret}
			events = append(events, call.ret)
		}
	}
	slices.SortFunc(events, func(a, b *registerEvent) int { return cmp.Compare(a.time, b.time) })
	head := new(registerEvent)
	for i, last := 0, head; i < len(events); i++ {
		last.next, events[i].prev = events[i], last
		last = events[i]
	}
	type choice struct {
		event *registerEvent
		state ETag
	}
	var made []choice
	state, done, seen := ETag(0), make([]byte, (len(ops)+7)/8), make(map[string]bool)
	for at := head.next; at != nil; {
		if !at.call { // it must have happened by now
			if len(made) == 0 {
				return false
			}
			last := made[len(made)-1]
			made = made[:len(made)-1]
			at, state = last.event, last.state
			done[at.op/8] &^= 1 << (at.op % 8)
			if at.ret != nil {
				at.ret.unlift()
			}
			at.unlift()
			at = at.next
			continue
		}
		if next, ok := ops[at.op].step(state); ok {
			done[at.op/8] |= 1 << (at.op % 8)
			if key := fmt.Sprint(next, ":", string(done)); !seen[key] {
				seen[key] = true
				made = append(made, choice{at, state})
				state = next
				at.lift()
				if at.ret != nil {
					at.ret.lift()
				}
				at = head.next
				continue
			}
			done[at.op/8] &^= 1 << (at.op % 8)
		}
		at = at.next
	}
	return true // nobody is left who has returned
}

// registers are the items of a test, with their histories.
type registers struct {
	clock atomic.Int64
	known [registerKeys][registerIDs]atomic.Uint64 // an etag that somebody saw lately

	mu  sync.Mutex
	ops [registerKeys][registerIDs][]registerOp
}

const (
	registerKeys = 3
	registerIDs  = 4
)

// do does a random operation.
func (r *registers) do(c *Container, rng *rand.Rand) error {
	ctx := context.Background()
	k, i := rng.IntN(registerKeys), rng.IntN(registerIDs)
	key, id := StringKey(fmt.Sprint("k", k)), fmt.Sprint("i", i)
	doc := fmt.Appendf(nil, `{"id":%q,"k":"k%d","v":%d}`, id, k, rng.IntN(1000))
	op := registerOp{verb: []verb{verbNone, verbNone, verbCreate, verbReplace, verbUpsert, verbDelete, verbPatch}[rng.IntN(7)]}
	if op.verb != verbNone && op.verb != verbCreate && rng.IntN(4) > 0 {
		op.match = ETag(r.known[k][i].Load())
	}
	o := &WriteOptions{IfMatch: op.match}
	var meta Meta
	op.call = r.clock.Add(1)
	switch op.verb {
	case verbNone:
		var it Item
		it, op.err = c.Read(ctx, key, id)
		meta = it.Meta
	case verbCreate:
		meta, op.err = c.Create(ctx, doc, nil)
	case verbReplace:
		meta, op.err = c.Replace(ctx, doc, o)
	case verbUpsert:
		meta, op.err = c.Upsert(ctx, doc, o)
	case verbDelete:
		op.err = c.Delete(ctx, key, id, o)
	case verbPatch:
		meta, op.err = c.Patch(ctx, key, id, new(Patch).Increment("/v", 1), o)
	}
	op.ret = r.clock.Add(1)
	if op.err != nil && !errors.Is(op.err, ErrExists) && !errors.Is(op.err, ErrNotFound) && !errors.Is(op.err, ErrPrecondition) {
		return op.err
	}
	if op.got = meta.ETag; op.got != 0 {
		r.known[k][i].Store(uint64(op.got))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops[k][i] = append(r.ops[k][i], op)
	return nil
}

// crashed says that a crash came between two times. What had returned before the
// first has happened; what had not may have, if it has changed something and was
// called before the second.
func (r *registers) crashed(from, to int64) {
	for k := range r.ops {
		for i := range r.ops[k] {
			ops := r.ops[k][i][:0]
			for _, op := range r.ops[k][i] {
				if !op.unknown && op.ret > from {
					if op.verb == verbNone || op.err != nil || op.call > to {
						continue
					}
					op.unknown = true
				}
				ops = append(ops, op)
			}
			r.ops[k][i] = ops
		}
	}
}

// TestLinearizable: conditional writes and reads of items by several goroutines,
// beside flushes, merges and splits, with power cuts in between.
func TestLinearizable(t *testing.T) {
	ctx := context.Background()
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes = 16 << 10
	r := new(registers)
	for round := range amount(12, 8, 4) {
		db, err := Open(ctx, "db", opts)
		must(t, err)
		c, err := db.EnsureContainer(ctx, "c", byK)
		must(t, err)
		if round > 0 { // what the crash has left is read before anything else
			for range 4 * registerKeys * registerIDs {
				must(t, r.do(c, rng))
			}
		}
		const workers = 4
		var enough atomic.Bool
		var done atomic.Int64
		cut, most := make(chan struct{}), 100+rng.Int64N(800)
		var wg sync.WaitGroup
		for w := range workers {
			mine := rand.New(rand.NewPCG(seed, uint64(1+round*workers+w)))
			wg.Go(func() {
				for !enough.Load() {
					if err := r.do(c, mine); err != nil {
						t.Error(err)
						return
					}
					if done.Add(1) == most {
						close(cut)
					}
				}
			})
		}
		wg.Go(func() {
			mine := rand.New(rand.NewPCG(seed, uint64(1000+round)))
			for !enough.Load() && !t.Failed() {
				shake(t, db, c, mine)
			}
		})
		<-cut
		from := r.clock.Add(1)
		next := opts.fs.(*vfs.Mem).Crash(vfs.CrashOptions{Keep: []vfs.Keep{vfs.KeepNone, vfs.KeepRandom, vfs.KeepAll}[round%3], Seed: rng.Uint64()})
		to := r.clock.Add(1)
		enough.Store(true)
		wg.Wait()
		must(t, db.Close())
		opts.fs = next
		r.crashed(from, to)
	}
	total, refused := 0, 0
	for k := range r.ops {
		for i, ops := range r.ops[k] {
			total += len(ops)
			for _, op := range ops {
				if errors.Is(op.err, ErrPrecondition) {
					refused++
				}
			}
			if !linearizable(ops) {
				t.Errorf("the %d operations on item %d of key %d have no order", len(ops), i, k)
			}
			findsFaults(t, rng, ops)
		}
	}
	if refused < total/50 {
		t.Errorf("%d operations, %d refused for their etag: the test reached too little", total, refused)
	}
}

// findsFaults plants faults in a history, which must be noticed: a read of what was
// overwritten before, and a write that was acknowledged and lost.
func findsFaults(t *testing.T, rng *rand.Rand, ops []registerOp) {
	t.Helper()
	slices.SortFunc(ops, func(a, b registerOp) int { return cmp.Compare(a.call, b.call) })
	var reads []int
	for i, op := range ops {
		if op.verb == verbNone && op.got != 0 && i > 20 {
			reads = append(reads, i)
		}
	}
	if len(reads) == 0 {
		return
	}
	at := reads[rng.IntN(len(reads))]
	for i := at - 1; i >= 0; i-- {
		// The newest value that another had replaced before the read began.
		old := ops[i]
		if old.got == 0 || old.unknown || old.verb == verbNone || old.got == ops[at].got {
			continue
		}
		replaced := slices.ContainsFunc(ops, func(op registerOp) bool {
			return op.verb != verbNone && op.err == nil && !op.unknown && op.call > old.ret && op.ret < ops[at].call
		})
		if !replaced {
			continue
		}
		stale := slices.Clone(ops)
		stale[at].got = old.got
		if linearizable(stale) {
			t.Errorf("a read of etag %v that was replaced is not noticed", old.got)
		}
		break
	}
	lost := slices.Clone(ops)
	for i, op := range ops {
		if op.err == nil && op.verb != verbNone && op.got != 0 && op.got == ops[at].got {
			lost = slices.Delete(lost, i, i+1)
			if linearizable(lost) {
				t.Errorf("etag %v that nobody wrote is not noticed", op.got)
			}
			break
		}
	}
}
