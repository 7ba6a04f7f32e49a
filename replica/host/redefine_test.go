package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
)

// indexed returns what a node indexes of a container, and the revision that it shows.
func (r *rig) indexed(node uint64, container string) (include string, revision uint64) {
	r.t.Helper()
	c, err := r.hosts[node].DB().Container(container)
	must(r.t, err)
	return strings.Join(c.Def().Index.Include, " "), r.hosts[node].Cluster().Container(container).Revision
}

// TestListOfBefore: a list of containers that a build of before has written is read as it was: nothing is indexed, no item expires, and no
// key is unique.
func TestListOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.kill(1)
		const before = `[{"name":"orders","partition_key":["/k"],"partitions":2,"number":65536,"nodes":[1,2,3],"replicas":3}]`
		must(t, vfs.WriteFileAtomic(r.disks[1], containersTemp, containersName, []byte(before)))
		must(t, r.start(1))
		c, err := r.hosts[1].DB().Container("orders")
		must(t, err)
		if def := c.Def(); len(def.Index.Include) > 0 || def.DefaultTTL != 0 || len(def.UniqueKeys) > 0 || !def.Replicated {
			t.Errorf("%+v", def)
		}
		r.close()
	})
}

// TestRedefine: a change of an index policy that a full disk or a crash has interrupted is completed by the next call, or at the next
// start.
func TestRedefine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		r := newRig(t, 1)
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.hosts[id].AddContainer(ctx, orders))
		}
		orders.Index, orders.Revision = engine.IndexAll(), 1
		r.faulty[1].SetHook(func(c vfs.Call) error {
			if c.Name == containersTemp {
				return fault.ErrDiskFull
			}
			return nil
		})
		if err := r.hosts[1].AddContainer(ctx, orders); err == nil {
			t.Error("a full disk: no error")
		}
		if include, revision := r.indexed(1, "orders"); include != "" || revision != 0 {
			t.Errorf("on a full disk: %q, revision %d", include, revision)
		}
		r.faulty[1].SetHook(nil)
		must(t, r.hosts[1].AddContainer(ctx, orders))
		if include, revision := r.indexed(1, "orders"); include != "/*" || revision != 1 {
			t.Errorf("once more: %q, revision %d", include, revision)
		}

		// A crash comes when the list is written and the store has not changed.
		orders.Index, orders.Revision = engine.IndexPolicy{Include: []string{"/n/?"}}, 2
		now, err := r.hosts[1].description().Newest(orders)
		must(t, err)
		must(t, r.hosts[1].noteContainers(now))
		r.kill(1)
		must(t, r.start(1))
		if include, revision := r.indexed(1, "orders"); include != "/n/?" || revision != 2 {
			t.Errorf("after a crash: %q, revision %d", include, revision)
		}
		orders.Index, orders.Revision = engine.IndexPolicy{}, 3
		must(t, r.hosts[1].AddContainer(ctx, orders))
		r.kill(1)
		must(t, r.start(1))
		if include, revision := r.indexed(1, "orders"); include != "" || revision != 3 {
			t.Errorf("nothing is indexed any more: %q, revision %d", include, revision)
		}
		r.close()
	})
}

// TestRedefineUnfinished: a node that could not make the groups of a container, and was told of a newer index policy meanwhile, keeps to
// that when it is told of the container as it was once more.
func TestRedefineUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		newer := orders
		newer.Index, newer.Revision = engine.IndexAll(), 1
		r.faulty[1].SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpCreate && strings.HasPrefix(c.Name, logDir+"/MANIFEST") {
				return fault.ErrDiskFull
			}
			return nil
		})
		for _, c := range []cluster.Container{orders, newer} {
			if err := r.hosts[1].AddContainer(t.Context(), c); !errors.Is(err, fault.ErrDiskFull) {
				t.Fatal("on a full disk: ", err)
			}
		}
		r.faulty[1].SetHook(nil)
		for _, c := range []cluster.Container{orders, newer} {
			must(t, r.hosts[1].AddContainer(t.Context(), c))
			if include, revision := r.indexed(1, "orders"); include != "/*" || revision != 1 {
				t.Errorf("told of revision %d: %q, revision %d", c.Revision, include, revision)
			}
		}
		r.close()
	})
}

// TestStoreDiffers: a node whose store has another container of a name cannot have the one that it is told of. That is an error of this
// container, which does not keep others from the node.
func TestStoreDiffers(t *testing.T) {
	orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
	for name, change := range map[string]func(*engine.ContainerDef){
		"key":            func(d *engine.ContainerDef) { d.PartitionKey = []string{"/other"} },
		"unique keys":    func(d *engine.ContainerDef) { d.UniqueKeys = [][]string{{"/u"}} },
		"default ttl":    func(d *engine.ContainerDef) { d.DefaultTTL = time.Second },
		"not replicated": func(d *engine.ContainerDef) { d.Replicated = false },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 1)
			def := orders.Def()
			change(&def)
			_, err := r.hosts[1].db.EnsureContainer(t.Context(), "orders", def)
			must(t, err)
			if err = r.hosts[1].AddContainer(t.Context(), orders); !errors.Is(err, cluster.ErrDescription) {
				t.Errorf("%s: %v", name, err)
			}
			r.close()
		})
	}
}
