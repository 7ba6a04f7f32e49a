package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
)

// TestAddFails: a node that could not make all groups of a container makes them when it is told of it again.
func TestAddFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 3, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		full, manifests := true, 0
		r.faulty[1].SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpCreate && strings.HasPrefix(c.Name, logDir+"/MANIFEST") {
				if manifests++; full {
					return syscall.ENOSPC
				}
			}
			return nil
		})
		if err := r.hosts[1].AddContainer(t.Context(), orders); !errors.Is(err, fault.ErrDiskFull) {
			t.Fatal("on a full disk: ", err)
		}
		full, manifests = false, 0
		for id := uint64(1); id <= 3; id++ {
			must(t, r.hosts[id].AddContainer(t.Context(), orders))
		}
		r.faulty[1].SetHook(nil)
		if manifests != 1 { // the node makes no other replica meanwhile
			t.Errorf("the logs of 3 groups took %d manifests", manifests)
		}
		r.kill(3)
		for i := range uint64(3) {
			id := orders.Number<<32 | (i + 1)
			r.until("the group at node 1", func() bool { return r.hosts[1].Group(id) != nil && r.leader(id) != nil })
		}
		r.close()
	})
}

// TestLongLists: a node reads a list of containers that is as long as one of a hundred thousand. These are none, which it says.
func TestLongLists(t *testing.T) {
	for _, name := range []string{droppedName, containersName} {
		h := &Host{fs: vfs.NewMem(), cfg: Config{Cluster: new(cluster.Cluster)}}
		must(t, vfs.WriteFileAtomic(h.fs, droppedTemp, name, make([]byte, 20<<20)))
		if err := h.loadContainers(); !errors.Is(err, engine.ErrCorrupt) {
			t.Error(name, ": ", err)
		}
	}
}

// TestDropMakesNoRoom: when the logs of a container are gone, those of the others do not grow by as much before they are truncated.
func TestDropMakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.close()
		r.keep, r.keepBytes, r.truncateBytes = defaultKeep, 128<<10, 64<<10
		for id := range r.hosts {
			must(t, r.start(id))
		}
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 6, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		for _, h := range r.hosts {
			must(t, h.AddContainer(t.Context(), orders))
		}
		text := strings.Repeat("x", 30<<10)
		for i := range uint64(orders.Partitions) {
			id := orders.Number<<32 | (i + 1)
			key := keysOf(*r.leading(id).Group(id))[0]
			for range 4 {
				r.pad(id, key, text)
			}
		}
		h := r.hosts[1]
		before := h.logged()
		time.Sleep(2 * janitorTime)
		for _, h := range r.hosts {
			must(t, h.DropContainer(t.Context(), orders.Number, "orders"))
		}
		most, id := uint64(0), r.cluster.Groups()[0].ID
		for range 20 {
			r.pad(id, r.keyIn(0), text)
			time.Sleep(janitorTime)
			most = max(most, h.logged())
		}
		if bound := uint64(r.keepBytes) + r.truncateBytes + uint64(2*len(text)); most > bound || before < 2*bound {
			t.Errorf("the logs had %d bytes, and %d at most without the container, want %d", before, most, bound)
		}
		r.close()
	})
}

// TestAddUnknown: whether the store has made a container that a node was told of is not known. If it has, the container goes from the
// store when it is dropped, and one of the name with another key can be added.
func TestAddUnknown(t *testing.T) {
	for _, made := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 1)
			h := r.hosts[1]
			orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := h.AddContainer(ended, orders); !errors.Is(err, context.Canceled) {
				t.Fatal("with a context that has ended: ", err)
			}
			if made {
				_, err := h.db.EnsureContainer(t.Context(), "orders", orders.Def())
				must(t, err)
			}
			next := orders
			next.Number++
			next.PartitionKey = []string{"/other"}
			if err := h.AddContainer(t.Context(), next); !errors.Is(err, ErrChange) {
				t.Error("the next one, before the drop: ", err)
			}
			must(t, h.DropContainer(t.Context(), orders.Number, "orders"))
			if _, err := h.db.Container("orders"); !errors.Is(err, engine.ErrNoContainer) {
				t.Error("after the drop: ", err)
			}
			must(t, h.AddContainer(t.Context(), next))
			r.kill(1)
			must(t, r.start(1))
			if _, err := r.hosts[1].db.Container("orders"); err != nil || len(r.hosts[1].Dropped()) != 1 {
				t.Error("after a restart: ", err)
			}
			r.close()
		})
	}
}

// TestDropCrash: a node that drops a container may crash at each call of its file system, and lose what
// it has not synced. What is left of the drop is done at the next start if it was decided, and all of it when the
// node hears of it again. A container of the same name has nothing of the one before.
func TestDropCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 2, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		for _, h := range r.hosts {
			must(t, h.AddContainer(t.Context(), orders))
		}
		r.put(r.keyIn(0), 20e9)
		r.until("entries of the container", func() bool {
			for _, g := range r.hosts[3].Groups() {
				if d := r.hosts[3].Group(g); d == nil || d.Epoch == 0 {
					return false
				}
			}
			return len(r.hosts[3].Groups()) == 4
		})
		r.kill(3)
		disk, store := r.disks[3], r.stores[3]
		groups := func(h *Host) (n int) {
			for _, g := range h.log.Groups() {
				if g.ID()>>32 == orders.Number {
					n++
				}
			}
			return n
		}
		decided, undecided := 0, 0
		for n := int64(1); ; n++ {
			r.disks[3], r.stores[3] = disk.Clone(), store.Clone()
			must(t, r.start(3))
			h := r.hosts[3]
			if groups(h) != 2 {
				t.Fatalf("%d logs", groups(h))
			}
			var image, content *vfs.Mem
			r.faulty[3].StopAt(r.faulty[3].Calls()+n, func() { image, content = r.disks[3].Clone(), r.stores[3].Clone() })
			err := h.DropContainer(t.Context(), orders.Number, "orders")
			done := image == nil
			if done {
				must(t, err)
				image, content = r.disks[3].Clone(), r.stores[3].Clone()
			}
			r.kill(3)
			r.disks[3], r.stores[3] = image.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), content.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
			must(t, r.start(3))
			h = r.hosts[3]
			_, missing := h.DB().Container("orders")
			switch gone := h.WasDropped(orders.Number << 32); {
			case gone && (groups(h) > 0 || !errors.Is(missing, engine.ErrNoContainer) || len(h.Groups()) != 2):
				t.Fatalf("call %d: decided, and there are %d logs, groups %v, %v", n, groups(h), h.Groups(), missing)
			case !gone && (groups(h) != 2 || missing != nil || len(h.Groups()) != 4):
				t.Fatalf("call %d: not decided, and there are %d logs, groups %v, %v", n, groups(h), h.Groups(), missing)
			case gone:
				decided++
			default:
				undecided++
			}
			must(t, h.DropContainer(t.Context(), orders.Number, "orders"))
			if all := h.Dropped(); len(all) != 1 || all[0] != (Dropped{Number: orders.Number, Name: "orders"}) || groups(h) > 0 {
				t.Fatalf("call %d, again: %+v, %d logs", n, all, groups(h))
			}
			must(t, h.AddContainer(t.Context(), orders)) // as a node would ask that has not heard of the drop
			again := orders
			again.Number++
			again.Nodes = []uint64{3}
			must(t, h.AddContainer(t.Context(), again))
			c, err := h.DB().Container("orders")
			must(t, err)
			for i := range 8 {
				if _, err = c.Read(t.Context(), engine.StringKey(fmt.Sprint("key", i)), "i"); !errors.Is(err, engine.ErrNotFound) {
					t.Fatalf("call %d: the next container has key%d: %v", n, i, err)
				}
			}
			r.kill(3)
			if done {
				break
			}
		}
		if decided < 3 || undecided < 3 {
			t.Errorf("%d crashes after the decision, %d before it", decided, undecided)
		}
		r.disks[3], r.stores[3] = disk, store
		must(t, r.start(3))
		r.check()
		r.close()
	})
}
