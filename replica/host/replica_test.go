package host

import (
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
)

// TestInboxBytes: commands for a group whose worker waits do not take more and more memory. The client is told that they are too many.
func TestInboxBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.steady()
		h, id := r.hosts[1], r.cluster.Groups()[0].ID
		going := make(chan struct{})
		h.replicas.get(id).do(func() { <-going })
		synctest.Wait()
		_, after := h.Leader(id)
		ops := []command.Operation{{Kind: command.Upsert, Body: make([]byte, 1<<20)}} // no JSON, so it is refused when the worker comes to it
		taken, outcomes := 0, make(chan error, 200)
		for range cap(outcomes) {
			c := &command.Command{After: after, Batches: []command.Batch{{Key: engine.StringKey(r.keyIn(0)), Operations: ops}}}
			rand.Read(c.ID[:])
			h.Propose(id, c, func(o group.Outcome) { outcomes <- o.Err })
			select {
			case err := <-outcomes:
				if !errors.Is(err, group.ErrBusy) {
					t.Fatal(err)
				}
			default:
				taken++
			}
		}
		if taken > maxInboxBytes>>20 || taken == 0 {
			t.Errorf("%d MiB of commands wait", taken)
		}
		close(going)
		for range taken {
			if err := <-outcomes; !errors.Is(err, engine.ErrInvalid) && !errors.Is(err, group.ErrBusy) {
				t.Error(err)
			}
		}
		r.close()
	})
}
