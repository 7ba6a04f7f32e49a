package trigger

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

// nop is a function of a trigger that does nothing.
func nop(context.Context, *int) error { return nil }

// TestFind: which triggers a write may name, by what it may do.
func TestFind(t *testing.T) {
	var r Registry[*int]
	for name, tr := range map[string]Trigger[*int]{
		"pre create": {On: Create}, "pre": {}, "post": {Type: Post}, "post change": {Type: Post, On: Replace | Delete},
	} {
		tr.Run = nop
		if err := r.Register(name, tr); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		pre, post string
		may       Operations
		want      error
		text      string
	}{
		{"", "", Create, nil, ""},
		{"pre create", "", Create, nil, ""},
		{"pre", "post", Create | Replace, nil, ""},
		{"pre", "post change", Delete, nil, ""},
		{"pre create", "", Create | Replace, fault.ErrInvalid, "create; the write can be a create or replace"},
		{"pre", "post change", Create, fault.ErrInvalid, "replace or delete; the write can be a create"},
		{"post", "", Create, fault.ErrInvalid, "registered as a post-trigger"},
		{"", "pre", Create, fault.ErrInvalid, "registered as a pre-trigger"},
		{"none", "post", Create, ErrUnknown, `pre-trigger "none"`},
		{"pre", "none", Create, ErrUnknown, `post-trigger "none"`},
	} {
		before, after, err := r.Find(tc.pre, tc.post, tc.may)
		if !errors.Is(err, tc.want) || tc.want != nil && (!errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), tc.text)) {
			t.Errorf("%q, %q for %v: %v", tc.pre, tc.post, tc.may, err)
		}
		if err == nil && (before.name != tc.pre || after.name != tc.post) {
			t.Errorf("%q, %q: found %q, %q", tc.pre, tc.post, before.name, after.name)
		}
	}
}

// TestRegister: what is refused, and a name that two goroutines register is one's.
func TestRegister(t *testing.T) {
	var r Registry[*int]
	for _, tc := range []struct {
		name string
		of   Trigger[*int]
	}{{"", Trigger[*int]{Run: nop}}, {"x", Trigger[*int]{}}, {"x", Trigger[*int]{Type: Post + 1, Run: nop}}, {"x", Trigger[*int]{On: all + 1, Run: nop}}} {
		if err := r.Register(tc.name, tc.of); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%q, %+v: %v", tc.name, tc.of.On, err)
		}
	}
	outcomes := make(chan error, 8)
	var group sync.WaitGroup
	for range cap(outcomes) {
		group.Go(func() { outcomes <- r.Register("x", Trigger[*int]{Run: nop}) })
	}
	group.Wait()
	close(outcomes)
	taken := 0
	for err := range outcomes {
		if errors.Is(err, fault.ErrExists) {
			taken++
		} else if err != nil {
			t.Error(err)
		}
	}
	if taken != cap(outcomes)-1 {
		t.Errorf("%d of %d found the name taken", taken, cap(outcomes))
	}
}

// TestRun: the outcome of a function is that of the trigger, with its name, and so is a panic.
func TestRun(t *testing.T) {
	cause := errors.New("cause")
	for _, tc := range []struct {
		name   string
		run    func(context.Context, *int) error
		want   error
		panics bool
	}{
		{"nothing", nop, nil, false},
		{"error", func(context.Context, *int) error { return cause }, cause, false},
		{"panic", func(context.Context, *int) error { panic("x") }, ErrPanic, true},
		{"panic with an error", func(context.Context, *int) error { panic(cause) }, cause, true},
	} {
		var r Registry[*int]
		calls := 0
		if err := r.Register(tc.name, Trigger[*int]{Type: Post, Run: func(ctx context.Context, n *int) error {
			*n++
			return tc.run(ctx, n)
		}}); err != nil {
			t.Fatal(err)
		}
		_, after, err := r.Find("", tc.name, Delete)
		if err != nil {
			t.Fatal(err)
		}
		err = after.Run(t.Context(), &calls)
		var e *Error
		switch {
		case calls != 1 || !errors.Is(err, tc.want):
			t.Errorf("%s: %d calls, %v", tc.name, calls, err)
		case tc.want == nil && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != nil && (!errors.As(err, &e) || e.Name != tc.name || e.Type != Post || errors.Is(err, ErrPanic) != tc.panics || (len(e.Stack) > 0) != tc.panics):
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	var none Named[*int]
	if err := none.Run(t.Context(), nil); err != nil || none.Failed(cause) != cause {
		t.Errorf("without a trigger: %v, %v", err, none.Failed(cause))
	}
}
