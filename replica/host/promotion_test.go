package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

// withReaders starts three nodes with two groups, of which node 4 has readers, writes, and kills the
// three. It returns the groups and the description after the promotion of the first one on node 4.
func withReaders(t *testing.T) (r *rig, groups []cluster.Group, next *cluster.Cluster) {
	r = newRig(t, 2)
	must(t, r.start(4))
	groups = r.cluster.Groups()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	promotion := &cluster.Promotion{Region: "there", Lost: []uint64{1, 2, 3}}
	for i, g := range groups {
		r.leading(g.ID)
		added, err := r.leading(g.ID).AddReader(ctx, g.ID, 4)
		must(t, err)
		if i == 0 {
			promotion.Groups = append(promotion.Groups, cluster.Promoted{ID: g.ID, Replica: added})
		}
	}
	for i := range 20 {
		r.put(fmt.Sprint("key", i), 20*time.Second)
	}
	r.until("the readers", func() bool {
		for _, g := range groups {
			_, here := r.hosts[4].Leader(g.ID)
			_, there := r.leading(g.ID).Leader(g.ID)
			if here != there || r.hosts[4].Group(g.ID) == nil {
				return false
			}
		}
		return true
	})
	for node := uint64(1); node <= 4; node++ {
		r.kill(node)
	}
	after := *r.cluster
	after.Nodes = slices.Clone(after.Nodes)
	for i := range after.Nodes {
		after.Nodes[i].Gone = true
	}
	after.Joined = []cluster.Node{{ID: 4, Address: address(4), Region: "there"}}
	after.Incarnation, after.Promotion = 1, promotion
	return r, groups, &after
}

// TestPromotion: node 4 goes on with the first group alone, has what was acknowledged, and takes
// writes. The replica with which no group goes on is gone. Nodes of before that come back meet it, end,
// and are not opened again; nor is node 4 with the description of before, which clients may not have either.
func TestPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, groups, next := withReaders(t)
		before := r.cluster
		r.cluster = next
		must(t, r.start(4))
		h := r.hosts[4]
		if got := h.Groups(); !slices.Equal(got, []uint64{groups[0].ID}) {
			t.Fatalf("groups %v", got)
		}
		r.until("a leader", func() bool { leads, _ := h.Leads(groups[0].ID); return leads })
		d := h.Group(groups[0].ID)
		if d.Voters() != 1 || len(d.Replicas) != 1 || d.Replicas[0].Role != topology.Voter {
			t.Errorf("%+v", d)
		}
		has, lacks := 0, 0
		c, err := h.DB().Container("items")
		must(t, err)
		for i := range 20 {
			key := engine.StringKey(fmt.Sprint("key", i))
			epk := key.EPK()
			_, err = c.Read(t.Context(), key, "i")
			switch in := d.Range.Contains(&epk); {
			case in && err != nil, !in && !errors.Is(err, engine.ErrNotHere):
				t.Errorf("%s: %v", key, err)
			case in:
				has++
				r.put(fmt.Sprint("key", i), 20*time.Second)
			default:
				lacks++
			}
		}
		if has < 3 || lacks < 3 {
			t.Errorf("%d and %d keys", has, lacks)
		}

		r.cluster = before
		for node := uint64(1); node <= 3; node++ {
			must(t, r.start(node))
		}
		for node := uint64(1); node <= 3; node++ {
			old := r.hosts[node]
			<-old.Failed()
			if !errors.Is(old.Failure(), ErrSuperseded) {
				t.Errorf("node %d: %v", node, old.Failure())
			}
			must(t, old.Close())
			delete(r.hosts, node)
			if err := r.start(node); !errors.Is(err, ErrSuperseded) {
				t.Errorf("node %d, once more: %v", node, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		conn, err := transport.DialClient(ctx, r.net.Dialer("client"), r.creds[0], 0, 4, address(4))
		if !errors.Is(err, transport.ErrIncarnation) {
			t.Errorf("a client with the description of before: %v, %v", conn, err)
		}
		if conn, err = transport.DialClient(ctx, r.net.Dialer("client"), r.creds[0], 1, 4, address(4)); err != nil {
			t.Error(err)
		} else {
			conn.Close()
		}
		if leads, _ := h.Leads(groups[0].ID); !leads || h.Failure() != nil {
			t.Errorf("node 4 leads: %v, %v", leads, h.Failure())
		}
		r.kill(4)
		if err := r.start(4); !errors.Is(err, cluster.ErrDescription) {
			t.Errorf("node 4 with the description of before: %v", err)
		}
		r.cluster = next
		must(t, r.start(4))
		r.close()
	})
}

// TestPromotionCrash: the node dies at any call of the file system while it enters the incarnation, and
// comes to the same end when it is opened again. From a point on it is not opened with the description of before.
func TestPromotionCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, groups, next := withReaders(t)
		before := r.cluster
		r.cluster = next
		disk, store := r.disks[4], r.stores[4]
		entering, crashes, step := 0, 0, int64(1)
		if testing.Short() {
			step = 4
		}
		for n := int64(1); ; n += step {
			var image, storeImage *vfs.Mem
			r.disks[4], r.stores[4] = disk.Clone(), store.Clone()
			r.stopAt = func(f *vfs.Faulty) {
				f.StopAt(n, func() { image, storeImage = r.disks[4].Clone(), r.stores[4].Clone() })
			}
			err := r.start(4)
			r.stopAt = nil
			if err == nil { // it has entered; what comes later is of other tests
				r.faulty[4].StopAt(0, nil)
				r.kill(4)
				break
			}
			if image == nil {
				t.Fatal(err)
			}
			crashes++
			for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}} {
				r.disks[4], r.stores[4] = image.Crash(keep), storeImage.Crash(keep)
				if b, err := vfs.ReadFile(r.disks[4], identityName, identityBytes); err == nil && bytes.Contains(b, []byte("entering")) {
					entering++
					r.cluster = before
					if err = r.start(4); !errors.Is(err, cluster.ErrDescription) {
						t.Fatalf("call %d, %+v: with the description of before: %v", n, keep, err)
					}
					r.cluster = next
				}
				if err = r.start(4); err != nil {
					t.Fatalf("call %d, %+v: %v", n, keep, err)
				}
				h := r.hosts[4]
				if got := h.Groups(); !slices.Equal(got, []uint64{groups[0].ID}) {
					t.Fatalf("call %d, %+v: groups %v", n, keep, got)
				}
				r.until("a leader", func() bool { leads, _ := h.Leads(groups[0].ID); return leads })
				c, err := h.DB().Container("items")
				must(t, err)
				for i := range 20 {
					key := engine.StringKey(fmt.Sprint("key", i))
					epk := key.EPK()
					if _, err = c.Read(t.Context(), key, "i"); h.Group(groups[0].ID).Range.Contains(&epk) != (err == nil) {
						t.Fatalf("call %d, %+v: %s: %v", n, keep, key, err)
					}
				}
				r.kill(4)
			}
		}
		if crashes < 5 || entering < 2 {
			t.Errorf("%d crashes, %d times the node was entering", crashes, entering)
		}
	})
}
