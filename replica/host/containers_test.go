package host_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// TestAddContainer: a container that nodes are told of while they run takes writes of a client that
// has never heard of it, and is there after a node was killed and started; a second one of the same
// name and another number is refused.
func TestAddContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		if _, err := c.Read(within(10*time.Second), protocol.Strong, "orders", engine.StringKey("a"), "i"); !errors.Is(err, engine.ErrNoContainer) {
			t.Fatal("before: ", err)
		}
		orders := cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 2, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}}
		for id := uint64(1); id <= 3; id++ {
			for range 2 { // again does no harm
				must(t, r.Node(id).AddContainer(t.Context(), orders))
			}
		}
		write := func(n int) {
			t.Helper()
			for i := range 10 {
				k := fmt.Sprint("key", i)
				_, err := c.Upsert(within(20*time.Second), "orders", engine.StringKey(k), fmt.Appendf(nil, `{"id":"i","k":%q,"n":%d}`, k, n))
				must(t, err)
			}
		}
		write(1)
		for id := uint64(1); id <= 3; id++ {
			r.Kill(id)
			must(t, r.Start(id))
		}
		write(2)
		for i := range 10 {
			k := fmt.Sprint("key", i)
			it, err := c.Read(within(20*time.Second), protocol.Strong, "orders", engine.StringKey(k), "i")
			if err != nil || string(it.Body) != fmt.Sprintf(`{"id":"i","k":%q,"n":2}`, k) {
				t.Errorf("%s: %s, %v", k, it.Body, err)
			}
		}
		other := orders
		other.Number++
		if err := r.Node(1).AddContainer(t.Context(), other); !errors.Is(err, host.ErrChange) {
			t.Error("another number: ", err)
		}
		other = cluster.Container{Name: "more", PartitionKey: []string{"/k"}, Partitions: 1, Number: 2}
		if err := r.Node(1).AddContainer(t.Context(), other); !errors.Is(err, cluster.ErrDescription) {
			t.Error("a low number: ", err)
		}
		c.Close()
		r.Close()
	})
}

// TestSplitHalves: a group whose data is all in a small part of its range is split where it halves
// the data, not in the middle of the range; one that is a single logical partition is not split.
func TestSplitHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		id := r.Cluster().Groups()[0].ID
		one := r.KeyIn(0)
		pad := strings.Repeat("x", 500)
		put := func(k, item string) {
			t.Helper()
			_, err := c.Upsert(within(20*time.Second), "items", engine.StringKey(k), fmt.Appendf(nil, `{"id":%q,"k":%q,"pad":%q}`, item, k, pad))
			must(t, err)
		}
		for i := range 20 {
			put(one, fmt.Sprint("i", i))
		}
		if err := r.Split(id, newRight); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("one logical partition: %v", err)
		}
		var keys []string // all in the lowest sixteenth
		for i := 0; len(keys) < 40; i++ {
			k := fmt.Sprint("low", i)
			if epk := engine.StringKey(k).EPK(); epk.Bytes()[0] < 0x04 {
				keys = append(keys, k)
			}
		}
		for _, k := range keys {
			for i := range 5 {
				put(k, fmt.Sprint("i", i))
			}
		}
		must(t, r.Split(id, newRight))
		left := 0
		for _, k := range keys {
			epk := engine.StringKey(k).EPK()
			if d := r.Leading(id).Group(id); d.Range.Contains(&epk) {
				left++
			}
		}
		if left < 12 || left > 28 {
			t.Errorf("%d of %d keys are in the left half", left, len(keys))
		}
		c.Close()
		r.Close()
	})
}
