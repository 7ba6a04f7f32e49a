package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/command"
)

// TestGather: commands that are proposed while the log is written come into one entry, but not
// two of one key, nor one command twice. Each has its own outcome, the same after a restart.
func TestGather(t *testing.T) {
	mem := vfs.NewMem()
	r := single(t, mem, 100)
	of := func(n uint64, k string) *command.Command {
		c := upsert(n, r.g.Applied(), "i")
		c.Batches[0].Key = engine.StringKey(k)
		c.Batches[0].Operations[0].Body = fmt.Appendf(nil, `{"id":"i","k":%q,"n":%d}`, k, n)
		return c
	}
	must(t, r.g.Propose(of(1, "first")))
	w, err := r.g.Ready()
	must(t, err)
	before := r.g.Applied()
	refused := increment(4, before, "missing")
	refused.Batches[0].Key = engine.StringKey("c")
	for _, c := range []*command.Command{of(2, "a"), of(3, "b"), refused, of(5, "a"), of(3, "b"), of(6, "d")} {
		must(t, r.g.Propose(c))
	}
	for _, a := range w.Appends {
		must(t, r.g.Write(ctx, a))
		must(t, r.log.Wait(a.Position))
		must(t, r.g.Written(a))
	}
	must(t, r.work())
	entries := map[uint64][]uint64{}
	for _, o := range r.done {
		n := binary.LittleEndian.Uint64(o.ID[:])
		entries[o.Index-before] = append(entries[o.Index-before], n)
		if o.Err != nil || n != 3 && o.Duplicate || n == 4 != (len(o.Results) == 1 && errors.Is(o.Results[0].Err, engine.ErrNotFound)) {
			t.Errorf("command %d: %+v", n, o)
		}
	}
	// The second proposal of command 3 is told of the first one.
	if got, want := fmt.Sprint(entries), "map[1:[1] 2:[2 3 4 6] 3:[5]]"; got != want {
		t.Errorf("entries %s, want %s", got, want)
	}
	want := r.g.state.at(r.g.Applied(), 1)
	must(t, r.log.Close())
	again, err := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), 1, nil)
	must(t, err)
	again.lead()
	if got := again.g.state.at(want.Index, 1); string(got.State) != string(want.State) {
		t.Errorf("state %x, was %x", got.State, want.State)
	}
	if got := again.body("i"); got != `{"id":"i","k":"a","n":5}` {
		t.Errorf("the item is %s", got)
	}
}

// TestGatherRefusedKey: a command with a key that the container refuses is refused by itself, also without operations. What another
// client has proposed is carried out.
func TestGatherRefusedKey(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	bad := &command.Command{ID: commandID(1), After: r.g.Applied(), Batches: []command.Batch{{Key: engine.JoinKeys(key, key)}}}
	if err := r.g.Propose(bad); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("proposed: %v", err)
	}
	must(t, r.g.Propose(upsert(2, r.g.Applied(), "i")))
	must(t, r.work())
	if o := r.done[len(r.done)-1]; o.ID != commandID(2) || o.Err != nil || len(o.Results) != 1 || o.Results[0].Err != nil {
		t.Errorf("the command of another client: %+v", o)
	}
}

// TestGatherLongKeys: commands that fit into entries of their own do so too when many come at once, whose keys count for
// each of their operations.
func TestGatherLongKeys(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	of := func(n uint64) *command.Command {
		c := &command.Command{ID: commandID(n), After: r.g.Applied(), Batches: []command.Batch{{Key: engine.StringKey(fmt.Sprintf("%02048d", n))}}}
		for i := range 100 {
			c.Batches[0].Operations = append(c.Batches[0].Operations, command.Operation{Kind: command.Check, ID: fmt.Sprintf("%0100d", i)})
		}
		return c
	}
	for n := range uint64(60) {
		must(t, r.g.Propose(of(1+n)))
	}
	must(t, r.work())
	for _, o := range r.done {
		if o.Err != nil || o.Results[0].Err != nil {
			t.Fatalf("%+v", o)
		}
	}
	if len(r.done) != 60 {
		t.Errorf("%d outcomes", len(r.done))
	}
}

// TestGatherManyOfOne: commands that wait are distributed over entries in one pass, also if each needs an entry of its own. Those
// of one key stay in their order, and others need not wait behind them.
func TestGatherManyOfOne(t *testing.T) {
	r := single(t, vfs.NewMem(), 10_000)
	var waiting []*command.Command
	r.g.encoded = make(map[command.ID][]byte)
	for n := range uint64(maxWaiting) {
		c := upsert(n, r.g.Applied(), "i")
		if n%8 == 7 {
			c.Batches[0].Key = engine.NumberKey(float64(n))
		}
		waiting, r.g.encoded[c.ID] = append(waiting, c), c.Append(nil)
	}
	entries := r.g.entriesOf(waiting)
	if want := maxWaiting * 7 / 8; len(entries) != want || len(entries[0].commands) != maxWaiting/8+1 {
		t.Fatalf("%d entries, the first one of %d commands, want %d", len(entries), len(entries[0].commands), want)
	}
	last := uint64(0)
	for i, e := range entries {
		n := binary.LittleEndian.Uint64(e.commands[0].ID[:])
		if i > 0 && n <= last {
			t.Fatalf("command %d in entry %d, behind %d", n, i, last)
		}
		last = n
	}
}

// TestGatherBounds: commands that are large together have entries of their own, also patches,
// which may make items that are larger than they are themselves.
func TestGatherBounds(t *testing.T) {
	of := func(n int, o command.Operation) *command.Command {
		return &command.Command{ID: commandID(uint64(n)), Batches: []command.Batch{{Key: engine.NumberKey(float64(n)), Operations: []command.Operation{o}}}}
	}
	count := func(o command.Operation) int {
		var e gathering
		for n := 0; ; n++ {
			c := of(n, o)
			if b := c.Append(nil); n == 10_000 || !e.add(c, b, loadOf(c, b)) {
				return n
			}
		}
	}
	if n := count(command.Operation{Kind: command.Upsert, Body: make([]byte, 300<<10)}); n != 3 {
		t.Errorf("%d of 300 KiB", n)
	}
	if n := count(command.Operation{Kind: command.Upsert, Body: make([]byte, 3<<20)}); n != 1 {
		t.Errorf("%d of 3 MiB", n)
	}
	if n := count(command.Operation{Kind: command.Patch, ID: "i"}); n != 2 {
		t.Errorf("%d patches", n)
	}
	if n := count(command.Operation{Kind: command.Delete, ID: "i"}); n != gatherOps {
		t.Errorf("%d deletes", n)
	}
}

// TestTooLargeCommand: a command that no replica would carry out, or whose entry fits into no message, is refused before it comes into
// the log: the leader would send it for ever.
func TestTooLargeCommand(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	text := strings.Repeat("x", 1<<20)
	batches := func(n int) *command.Command {
		c := &command.Command{ID: commandID(uint64(n)), After: r.g.Applied()}
		for i := range n {
			k := fmt.Sprint(i)
			c.Batches = append(c.Batches, command.Batch{Key: engine.StringKey(k), Operations: []command.Operation{
				{Kind: command.Upsert, Body: fmt.Appendf(nil, `{"id":"i","k":%q,"t":%q}`, k, text)},
			}})
		}
		return c
	}
	edits := func(n int) *command.Command { // a batch counts nothing of a patch but the id
		c := increment(uint64(100+n), r.g.Applied(), "i")
		ops := &c.Batches[0].Operations
		*ops = (*ops)[:0]
		for i := range n {
			*ops = append(*ops, command.Operation{Kind: command.Patch, ID: fmt.Sprint(i), Edits: []command.Edit{
				{Kind: command.EditSet, Path: "/t", Value: []byte(`"` + text + `"`)},
			}})
		}
		return c
	}
	for _, tc := range []struct {
		of func(int) *command.Command
		n  int
	}{{batches, mostBatches >> 20}, {edits, mostEncoded >> 20}} {
		must(t, r.g.Propose(tc.of(tc.n-1)))
		if err := r.g.Propose(tc.of(tc.n)); !errors.Is(err, engine.ErrTooLarge) {
			t.Errorf("%d MiB: %v", tc.n, err)
		}
	}
}

// TestWaitingBounds: the commands that wait have so many bytes at most. One that waits already is taken, and does not count twice.
func TestWaitingBounds(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	r.ask(upsert(1, r.g.Applied(), "i"))
	if len(r.g.encoded) != 0 || r.g.bytes != 0 {
		t.Errorf("%d commands with %d bytes wait after the outcome", len(r.g.encoded), r.g.bytes)
	}
	body := fmt.Appendf(nil, `{"id":"i","k":"a","t":%q}`, strings.Repeat("x", 1<<20))
	of := func(n uint64) *command.Command {
		c := upsert(n, r.g.Applied(), "i")
		c.Batches[0].Operations[0].Body = body
		return c
	}
	const most = mostWaitingBytes>>20 - 1
	for n := range uint64(most) {
		must(t, r.g.Propose(of(10+n)))
	}
	if err := r.g.Propose(of(1000)); !errors.Is(err, ErrBusy) {
		t.Errorf("a command beyond the bound: %v", err)
	}
	must(t, r.g.Propose(of(10)))
	r.g.giveUp()
	must(t, r.work())
	if len(r.done) != most || !errors.Is(r.done[0].Err, ErrNotLeader) {
		t.Errorf("%d outcomes, want %d", len(r.done), most)
	}
	must(t, r.g.Propose(of(10)))
	if len(r.g.waiting) != 1 {
		t.Error("a command that was given up does not wait when it comes again")
	}
}
