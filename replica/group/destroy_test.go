package group

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// TestDestroyInterruptedSplit: a replica that a crash has interrupted in a split, and that its group
// has removed meanwhile, leaves the right half to the right group, if that is on this node. Otherwise
// the right half goes with it. Each call of the file system may be the last one before the crash, and
// each one of the removal before a second crash.
func TestDestroyInterruptedSplit(t *testing.T) {
	from := vfs.NewMem()
	r := single(t, from, 100)
	old := r.g.Applied()
	for n := uint64(1); n <= 6; n++ {
		r.ask(keyed(n, old))
	}
	must(t, r.g.Truncate(ctx)) // the replica need not apply anything before it may go
	at := middle(r.g)
	must(t, r.log.Close())
	must(t, r.db.Close())
	with, without := 0, 0
	for n := int64(1); ; n++ {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		r, err := open(t, faulty, 1, nil)
		must(t, err)
		r.lead()
		i := r.g.Applied() + 1
		must(t, r.g.Truncate(ctx))
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { image = mem.Clone() })
		if err = r.g.ProposeSplit(at, rightID); err == nil {
			err = r.work()
		}
		if image == nil {
			must(t, err)
			break
		}
		image = image.Crash(vfs.CrashOptions{Keep: vfs.KeepAll})
		for stop := int64(1); ; stop++ {
			right, done := destroyLeft(t, image.Clone(), i, stop)
			if right {
				with++
			} else {
				without++
			}
			if done || !right && stop > 3 {
				break
			}
		}
	}
	if with < 5 || without < 5 {
		t.Errorf("%d removals with the right group, %d without it", with, without)
	}
}

// destroyLeft removes the left replica, as a notice of its group does, stopped at a call of the file
// system, and opens everything again. It reports whether the right group is on the node, and whether the removal
// was done before it was stopped.
func destroyLeft(t *testing.T, mem *vfs.Mem, split uint64, stop int64) (right, done bool) {
	t.Helper()
	faulty := vfs.NewFaulty(mem)
	r, err := open(t, faulty, 1, nil)
	must(t, err)
	if r.g.Held() >= split {
		return r.log.Group(rightID) != nil, true // the split is complete
	}
	right = r.log.Group(rightID) != nil
	var image *vfs.Mem
	faulty.StopAt(faulty.Calls()+stop, func() { image = mem.Clone() })
	err = r.g.Destroy(ctx)
	if done = image == nil; done {
		must(t, err)
		image = mem
	}
	again, err := open(t, image.Crash(vfs.CrashOptions{Keep: vfs.KeepAll}), 1, nil)
	if again.log.Group(1) != nil && err == nil {
		err = again.g.Destroy(ctx)
	}
	if err != nil && !errors.Is(err, raftlog.ErrRemoved) {
		t.Fatalf("call %d, right group %v: %v", stop, right, err)
	}
	if again.log.Group(1) != nil || (again.log.Group(rightID) != nil) != right {
		t.Fatalf("call %d, right group %v: groups 1 %v, right %v", stop, right, again.log.Group(1) != nil, again.log.Group(rightID) != nil)
	}
	if right {
		second, err := again.other(rightID)
		if err != nil {
			t.Fatalf("call %d: the right group: %v", stop, err)
		}
		second.lead()
		span, _ := second.g.Range()
		for n := uint64(1); n <= 6; n++ {
			key := engine.StringKey(fmt.Sprint("k", n))
			epk := key.EPK()
			if _, err := again.c.Read(ctx, key, "i"); span.Contains(&epk) != (err == nil) || err != nil && !errors.Is(err, engine.ErrNotHere) {
				t.Fatalf("call %d: %s: %v", stop, key, err)
			}
		}
		return right, done
	}
	for _, p := range again.c.Partitions() {
		if !p.Absent {
			t.Fatalf("call %d: partition [%s, %s) is still here", stop, p.Min, p.Max)
		}
	}
	return right, done
}
