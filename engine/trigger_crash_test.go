package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// TestTriggersCrash crashes a write with triggers at each change that it makes of the disk,
// by a kill and by a power cut. Its item, the item of its pre-trigger and that of its
// post-trigger are all there or none, and there if the write was acknowledged.
func TestTriggersCrash(t *testing.T) {
	t.Parallel()
	key := engine.StringKey("a")
	document := func(id string, n int) []byte { return fmt.Appendf(nil, `{"id":%q,"k":"a","n":%d}`, id, n) }
	open := func(s *cleavetest.Store) *engine.Container {
		c := s.Container("c", "/k")
		for name, kind := range map[string]engine.TriggerType{"pre": engine.PreTrigger, "post": engine.PostTrigger} {
			err := c.RegisterTrigger(name, engine.Trigger{Type: kind, Run: func(_ context.Context, call *engine.TriggerCall) error {
				if kind == engine.PreTrigger {
					call.Document = document(call.ID, 2)
				}
				return call.Tx.Upsert(document(name, 2), nil)
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	lost, kept, n := 0, 0, 1
	for ; ; n++ {
		s := cleavetest.New(t, cleavetest.NoBackground())
		c := open(s)
		for _, id := range []string{"item", "pre", "post"} {
			if _, err := c.Create(t.Context(), document(id, 1), nil); err != nil {
				t.Fatal(err)
			}
		}
		s.CrashAt(n)
		_, failed := c.Replace(t.Context(), document("item", 1), &engine.WriteOptions{PreTrigger: "pre", PostTrigger: "post"})
		if !s.Crashed() {
			if failed != nil {
				t.Fatal(failed)
			}
			break
		}
		if n%2 == 0 {
			s.Kill()
		} else {
			s.CutPower()
		}
		c = open(s)
		written := 0
		for it, err := range c.Scan(t.Context(), key, engine.IDRange{}, nil) {
			switch {
			case err != nil:
				t.Fatal(err)
			case string(it.Body) == string(document(it.ID, 2)):
				written++
			case string(it.Body) != string(document(it.ID, 1)):
				t.Errorf("change %d: there is %s", n, it.Body)
			}
		}
		switch {
		case written == 3:
			kept++
		case written != 0 || failed == nil:
			t.Errorf("change %d: %d of 3 items are written, the write returned %v", n, written, failed)
		default:
			lost++
		}
		if _, err := c.Replace(t.Context(), document("item", 1), &engine.WriteOptions{PreTrigger: "pre", PostTrigger: "post"}); err != nil {
			t.Errorf("change %d: after the crash: %v", n, err)
		}
	}
	if lost == 0 || n < 2 {
		t.Errorf("%d changes, of which %d lost the write and %d kept it", n-1, lost, kept)
	}
	t.Logf("%d changes: %d lost the write, %d kept it", n-1, lost, kept)
}
