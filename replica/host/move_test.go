package host_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/topology"
)

// TestMoveReader: a move makes no voter of a reader.
func TestMoveReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		r.Steady()
		id := r.Cluster().Groups()[0].ID
		must(t, r.Start(4))
		h := r.Leading(id)
		gone := uint64(0)
		for _, o := range h.Group(id).Replicas {
			if uint64(o.Node) != h.Node() {
				gone = o.ID
			}
		}
		_, err := h.AddReader(within(time.Minute), id, 4)
		must(t, err)
		must(t, h.RemoveReplica(within(time.Minute), id, gone))
		r.Steady()
		free := uint64(topology.NodeOf(gone)) // node without a replica
		before := h.Group(id).Replicas
		for _, way := range [][2]uint64{{4, free}, {h.Node(), 4}} {
			if err = c.Move(within(time.Minute), id, way[0], way[1]); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("from node %d to node %d: %v", way[0], way[1], err)
			}
		}
		if now := r.Leading(id).Group(id).Replicas; !slices.Equal(now, before) {
			t.Errorf("%+v, and before %+v", now, before)
		}
		c.Close()
		r.Close()
	})
}
