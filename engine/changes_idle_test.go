package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestChangesOfIdle reads on from a position behind everything that a partition has,
// after it lay idle for longer than its changes are kept, others were written to, and
// a merge has dropped what was overwritten: the reader has seen that.
func TestChangesOfIdle(t *testing.T) {
	for _, how := range []string{"read", "now", "reopened"} {
		t.Run(how, func(t *testing.T) {
			ctx := context.Background()
			h := newHistorian(t, ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Minute}, nil)
			for i := range 30 {
				h.write(i%3, fmt.Sprint(i%2), fmt.Sprint(i), 0)
				if i%10 == 9 {
					must(h.t, h.db.Flush(ctx))
				}
			}
			h.deletePartition(2)
			h.delete(1, "0")
			must(h.t, h.read(-1))
			h.compare()
			other, err := h.db.CreateContainer(ctx, "other", ContainerDef{PartitionKey: []string{"/k"}})
			must(h.t, err)
			for i := range 10 {
				_, err := other.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a"}`, i), nil)
				must(h.t, err)
			}
			if how == "reopened" {
				h.reopen(h.mem.Kill()) // sequences go on far ahead
			}
			h.clock.pass(time.Minute)
			must(h.t, h.db.keepMarks())
			h.clock.pass(2 * time.Minute)
			must(h.t, h.db.Compact(ctx))
			if h.c.routing.Load().parts[0].ChangeFloor.Load() == 0 {
				t.Fatal("nothing was dropped")
			}
			if how == "now" {
				for _, err := range h.c.Changes(ctx, AllPartitions(), FromNow(), &ChangeOptions{AllVersions: true, Progress: func(p ChangePosition) { h.at = p }}) {
					must(h.t, err)
				}
			}
			must(h.t, h.read(-1))
			h.write(0, "0", "late", 0)
			h.write(1, "0", "late", 0)
			h.write(2, "0", "late", 0)
			must(h.t, h.read(-1))
			for k, want := range h.written {
				if got := h.seen[k]; len(got) != len(want) || got[len(got)-1].body != want[len(want)-1].body {
					t.Errorf("%v: %d changes told, %d written", k, len(got), len(want))
				}
			}
			h.at = FromStart()
			if err := h.read(-1); !errors.Is(err, ErrPositionExpired) {
				t.Errorf("from the start: %v", err)
			}
		})
	}
}
