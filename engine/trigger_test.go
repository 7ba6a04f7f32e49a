package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/vfs"
)

// bodies returns the documents of a logical partition by id.
func bodies(t *testing.T, c *Container, pk PartitionKey) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for it, err := range c.Scan(t.Context(), pk, IDRange{}, nil) {
		must(t, err)
		all[it.ID] = string(it.Body)
	}
	return all
}

// register registers triggers, each of type and for operations that its name says.
func register(t *testing.T, c *Container, name string, kind TriggerType, on TriggerOperation, run func(context.Context, *TriggerCall) error) {
	t.Helper()
	must(t, c.RegisterTrigger(name, Trigger{Type: kind, On: on, Run: run}))
}

// TestTriggers: what a trigger sees of each kind of write, and what there is afterwards: the
// document of the pre-trigger, and the item that the post-trigger has written.
func TestTriggers(t *testing.T) {
	ctx := t.Context()
	both := &WriteOptions{PreTrigger: "double", PostTrigger: "log"}
	a := StringKey("a")
	for _, tc := range []struct {
		name     string
		write    func(c *Container) (Meta, error)
		on       TriggerOperation
		id, old  string // old "": there was none
		document string // as the pre-trigger sees it
		after    string // "": the item is gone
	}{
		{"create", func(c *Container) (Meta, error) { return c.Create(ctx, doc("new", "a", 1), both) }, OnCreate, "new", "", `{"id":"new","k":"a","n":1}`, `{"id":"new","k":"a","n":11}`},
		{"upsert new", func(c *Container) (Meta, error) { return c.Upsert(ctx, doc("new", "a", 2), both) }, OnCreate, "new", "", `{"id":"new","k":"a","n":2}`, `{"id":"new","k":"a","n":12}`},
		{"upsert old", func(c *Container) (Meta, error) { return c.Upsert(ctx, doc("old", "a", 3), both) }, OnReplace, "old", `{"id":"old","k":"a","n":0}`, `{"id":"old","k":"a","n":3}`, `{"id":"old","k":"a","n":13}`},
		{"replace", func(c *Container) (Meta, error) { return c.Replace(ctx, doc("old", "a", 4), both) }, OnReplace, "old", `{"id":"old","k":"a","n":0}`, `{"id":"old","k":"a","n":4}`, `{"id":"old","k":"a","n":14}`},
		{"patch", func(c *Container) (Meta, error) { return c.Patch(ctx, a, "old", new(Patch).Increment("/n", 5), both) }, OnReplace, "old", `{"id":"old","k":"a","n":0}`, `{"id":"old","k":"a","n":5}`, `{"id":"old","k":"a","n":15}`},
		{"delete", func(c *Container) (Meta, error) { return Meta{ID: "old"}, c.Delete(ctx, a, "old", both) }, OnDelete, "old", `{"id":"old","k":"a","n":0}`, "", ""},
		{"typed", func(c *Container) (Meta, error) {
			return Typed[map[string]any](c, nil).Create(ctx, map[string]any{"id": "new", "k": "a", "n": 6}, both)
		}, OnCreate, "new", "", `{"id":"new","k":"a","n":6}`, `{"id":"new","k":"a","n":16}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, c := openStore(t, testOptions(vfs.NewMem()))
			_, err := c.Create(ctx, doc("old", "a", 0), nil)
			must(t, err)
			check := func(call *TriggerCall, document string) error {
				old := ""
				if call.Old != nil {
					old = string(call.Old.Body)
				}
				if call.On != tc.on || call.ID != tc.id || old != tc.old || string(call.Document) != document || call.Tx.Key() != a {
					t.Errorf("%v of %q: old %s, document %s", call.On, call.ID, old, call.Document)
				}
				return nil
			}
			register(t, c, "double", PreTrigger, 0, func(_ context.Context, call *TriggerCall) error {
				if err := check(call, tc.document); err != nil || call.Document == nil {
					return err
				}
				call.Document = []byte(strings.Replace(string(call.Document), `"n":`, `"n":1`, 1))
				return nil
			})
			register(t, c, "log", PostTrigger, 0, func(_ context.Context, call *TriggerCall) error {
				it, err := call.Tx.Read(call.ID) // what the write left
				if errors.Is(err, ErrNotFound) != (tc.after == "") || string(it.Body) != tc.after {
					t.Errorf("behind the write: %s, %v", it.Body, err)
				}
				return errors.Join(check(call, tc.after), call.Tx.Create(doc("log", "a", 1), nil))
			})
			meta, err := tc.write(c)
			must(t, err)
			if meta.ID != tc.id {
				t.Errorf("meta %+v", meta)
			}
			want := map[string]string{"old": `{"id":"old","k":"a","n":0}`, "log": `{"id":"log","k":"a","n":1}`, tc.id: tc.after}
			if tc.after == "" {
				delete(want, tc.id)
			} else if it, err := c.Read(ctx, a, tc.id); err != nil || it.ETag != meta.ETag || it.Seq != meta.Seq || it.Modified != meta.Modified {
				t.Errorf("read %+v, written %+v, %v", it.Meta, meta, err)
			}
			if got := bodies(t, c, a); !maps.Equal(got, want) {
				t.Errorf("there is %v, want %v", got, want)
			}
		})
	}
}

// TestTriggersOfOpaqueContainers: triggers of Put and Delete.
func TestTriggersOfOpaqueContainers(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{Kind: Opaque, PartitionKey: []string{"/k"}})
	register(t, c, "upper", PreTrigger, OnCreate|OnReplace, func(_ context.Context, call *TriggerCall) error {
		call.Document = []byte(strings.ToUpper(string(call.Document)))
		return nil
	})
	register(t, c, "keep", PreTrigger, OnDelete, func(_ context.Context, call *TriggerCall) error {
		return call.Tx.Put(call.ID+"/old", call.Old.Body, nil)
	})
	register(t, c, "long", PreTrigger, 0, func(_ context.Context, call *TriggerCall) error {
		call.Document = make([]byte, c.Def().Limits.ItemBytes+1)
		return nil
	})
	a := StringKey("a")
	_, err := c.Put(ctx, a, "x", []byte("some"), &WriteOptions{PreTrigger: "upper"})
	must(t, err)
	must(t, c.Delete(ctx, a, "x", &WriteOptions{PreTrigger: "keep"}))
	if got := bodies(t, c, a); !maps.Equal(got, map[string]string{"x/old": "SOME"}) {
		t.Errorf("there is %v", got)
	}
	if _, err := c.Put(ctx, a, "x", nil, &WriteOptions{PreTrigger: "long"}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a body that is too long: %v", err)
	}
	if _, err := c.Create(ctx, doc("x", "a", 1), &WriteOptions{PreTrigger: "upper"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a document: %v", err)
	}
}

// TestTriggersRefused: what cannot be registered, and what a write must not name. Nothing
// runs and nothing is written.
func TestTriggersRefused(t *testing.T) {
	ctx := t.Context()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	never := func(context.Context, *TriggerCall) error {
		t.Error("a trigger ran")
		return nil
	}
	register(t, c, "pre", PreTrigger, OnCreate, never)
	register(t, c, "post", PostTrigger, OnReplace|OnDelete, never)
	for name, tr := range map[string]Trigger{"": {Run: never}, "no function": {}, "type": {Type: 2, Run: never}, "operation": {On: 8, Run: never}} {
		if err := c.RegisterTrigger(name, tr); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := c.RegisterTrigger("pre", Trigger{Run: never}); !errors.Is(err, ErrExists) || errors.Is(err, ErrInvalid) {
		t.Errorf("a name that is taken: %v", err)
	}
	a := StringKey("a")
	pre, post := &WriteOptions{PreTrigger: "pre"}, &WriteOptions{PostTrigger: "post"}
	other, err := db.CreateContainer(ctx, "other", byK)
	must(t, err)
	replicated, err := db.CreateContainer(ctx, "replicated", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	must(t, err)
	register(t, replicated, "pre", PreTrigger, 0, never)
	for name, tc := range map[string]struct {
		got  error
		want error
	}{
		"unknown":              {second(c.Create(ctx, doc("x", "a", 1), &WriteOptions{PreTrigger: "none"})), ErrNoTrigger},
		"unknown post":         {second(c.Create(ctx, doc("x", "a", 1), &WriteOptions{PreTrigger: "pre", PostTrigger: "none"})), ErrNoTrigger},
		"of another container": {second(other.Create(ctx, doc("x", "a", 1), pre)), ErrNoTrigger},
		"pre as post":          {second(c.Create(ctx, doc("x", "a", 1), &WriteOptions{PostTrigger: "pre"})), ErrInvalid},
		"post as pre":          {second(c.Replace(ctx, doc("x", "a", 1), &WriteOptions{PreTrigger: "post"})), ErrInvalid},
		"create for a replace": {second(c.Replace(ctx, doc("x", "a", 1), pre)), ErrInvalid},
		"create for an upsert": {second(c.Upsert(ctx, doc("x", "a", 1), pre)), ErrInvalid},
		"create for a patch":   {second(c.Patch(ctx, a, "x", new(Patch).Remove("/n"), pre)), ErrInvalid},
		"create for a delete":  {c.Delete(ctx, a, "x", pre), ErrInvalid},
		"not for a create":     {second(c.Create(ctx, doc("x", "a", 1), post)), ErrInvalid},
		"logical partition":    {c.DeleteLogicalPartition(ctx, a, post), ErrInvalid},
		"batch":                {c.NewBatch(a).Create(doc("x", "a", 1), pre), ErrInvalid},
		"transaction":          {c.Update(ctx, a, func(tx *Tx) error { return tx.Create(doc("x", "a", 1), pre) }), ErrInvalid},
		"update":               {c.Update(ctx, a, func(*Tx) error { return second(c.Create(ctx, doc("x", "a", 1), pre)) }), ErrNestedUpdate},
		"replicated":           {second(replicated.Create(ctx, doc("x", "a", 1), pre)), ErrReplicated},
		"document":             {second(c.Create(ctx, []byte(`{"k":"a"}`), pre)), ErrInvalid},
		"key":                  {second(c.Create(ctx, doc("x", "a", 1), &WriteOptions{PreTrigger: "pre", Key: StringKey("b")})), ErrKeyMismatch},
		"put":                  {second(c.Put(ctx, a, "x", nil, &WriteOptions{PreTrigger: "pre"})), ErrInvalid},
		"no patch":             {second(c.Patch(ctx, a, "x", nil, post)), ErrInvalid},
		"durability":           {second(c.Create(ctx, doc("x", "a", 1), &WriteOptions{PreTrigger: "pre", Durability: Interval(time.Second)})), ErrInvalid},
		"etag":                 {second(c.Create(ctx, doc("y", "b", 1), &WriteOptions{PreTrigger: "pre", IfMatch: 7})), ErrPrecondition},
		"no item to replace":   {second(c.Replace(ctx, doc("x", "a", 1), post)), ErrNotFound},
		"no item to delete":    {c.Delete(ctx, a, "x", post), ErrNotFound},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
		if tc.want == ErrNoTrigger && (!errors.Is(tc.got, ErrInvalid) || !strings.Contains(tc.got.Error(), "register")) {
			t.Errorf("%s: %v", name, tc.got)
		}
	}
	if got := bodies(t, c, a); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
}

// errRefusal is the error of a trigger.
var errRefusal = errors.New("not today")

// refusal is an error with a type of its own.
type refusal struct{ code int }

func (r *refusal) Error() string { return fmt.Sprint("refused with code ", r.code) }

// TestTriggersFail: a write whose trigger fails writes nothing, of its own and of its
// triggers, and its error is that of the trigger, with the name.
func TestTriggersFail(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	a := StringKey("a")
	_, err := c.Create(ctx, doc("old", "a", 0), nil)
	must(t, err)
	before := bodies(t, c, a)
	pre := []TriggerType{PreTrigger}
	assign := func(document string) func(*TriggerCall) error {
		return func(call *TriggerCall) error {
			call.Document = []byte(document)
			return nil
		}
	}
	for _, tc := range []struct {
		name   string
		only   []TriggerType // nil: both
		run    func(call *TriggerCall) error
		want   error
		text   string
		panics bool
	}{
		{name: "error", run: func(*TriggerCall) error { return errRefusal }, want: errRefusal, text: "not today"},
		{name: "typed error", run: func(*TriggerCall) error { return fmt.Errorf("rule: %w", &refusal{7}) }, text: "code 7"},
		{name: "error of the transaction", run: func(call *TriggerCall) error { return call.Tx.Create(doc("old", "a", 1), nil) }, want: ErrExists},
		{name: "panic", run: func(*TriggerCall) error { panic("no luck") }, want: ErrTriggerPanic, text: "no luck", panics: true},
		{name: "panic with an error", run: func(*TriggerCall) error { panic(errRefusal) }, want: errRefusal, panics: true},
		{name: "index", run: func(call *TriggerCall) error {
			call.Document = call.Document[:0]
			call.ID = string(call.Document[len(call.ID)])
			return nil
		}, want: ErrTriggerPanic, text: "out of range", panics: true},
		{name: "another key", only: pre, run: assign(`{"id":"new","k":"b"}`), want: ErrKeyMismatch},
		{name: "another id", only: pre, run: assign(`{"id":"new2","k":"a"}`), want: ErrInvalid, text: `"new" to "new2"`},
		{name: "no document", only: pre, run: assign(``), want: ErrInvalid},
		{name: "not JSON", only: pre, run: assign(`{"id":`), want: ErrInvalid},
		{name: "document after the write", only: []TriggerType{PostTrigger}, run: assign(`{"id":"new","k":"a"}`), want: ErrInvalid, text: "after the write"},
		{name: "triggers of its own", run: func(call *TriggerCall) error {
			return call.Tx.Upsert(doc("other", "a", 1), &WriteOptions{PreTrigger: "error as a pre-trigger"})
		}, want: ErrInvalid},
		{name: "update", run: func(*TriggerCall) error { return c.Update(ctx, a, func(*Tx) error { return nil }) }, want: ErrNestedUpdate},
		{name: "write with triggers", run: func(*TriggerCall) error {
			return second(c.Upsert(ctx, doc("other", "a", 1), &WriteOptions{PreTrigger: "error as a pre-trigger"}))
		}, want: ErrNestedUpdate},
	} {
		for _, kind := range []TriggerType{PreTrigger, PostTrigger} {
			if tc.only != nil && !slices.Contains(tc.only, kind) {
				continue
			}
			name := fmt.Sprintf("%s as a %v", tc.name, kind)
			register(t, c, name, kind, 0, func(_ context.Context, call *TriggerCall) error {
				must(t, call.Tx.Upsert(doc("log", "a", 1), nil))
				return tc.run(call)
			})
			o := &WriteOptions{PreTrigger: name}
			if kind == PostTrigger {
				o = &WriteOptions{PostTrigger: name}
			}
			meta, err := c.Upsert(ctx, doc("new", "a", 1), o)
			var te *TriggerError
			if !errors.As(err, &te) || te.Name != name || te.Type != kind || te.Err == nil || (te.Stack != nil) != tc.panics {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var r *refusal
			if tc.want != nil && !errors.Is(err, tc.want) || tc.want == nil && (!errors.As(err, &r) || r.code != 7) || errors.Is(err, ErrTriggerPanic) != tc.panics {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s: %v", name, err)
			}
			if tc.panics && !strings.Contains(string(te.Stack), "trigger_test.go") {
				t.Errorf("%s: stack %s", name, te.Stack)
			}
			if meta.Charge == 0 {
				t.Errorf("%s: no charge", name)
			}
			if got := bodies(t, c, a); !maps.Equal(got, before) {
				t.Fatalf("%s: there is %v", name, got)
			}
		}
	}
	register(t, c, "set", PreTrigger, OnDelete, func(_ context.Context, call *TriggerCall) error {
		call.Document = doc("old", "a", 1)
		return nil
	})
	if err := c.Delete(ctx, a, "old", &WriteOptions{PreTrigger: "set"}); !errors.Is(err, ErrInvalid) || !errors.As(err, new(*TriggerError)) {
		t.Errorf("the document of a delete: %v", err)
	}
	if got := bodies(t, c, a); !maps.Equal(got, before) {
		t.Errorf("there is %v", got)
	}
	_, err = c.Upsert(ctx, doc("new", "a", 1), nil) // the store goes on
	must(t, err)
}

// TestTriggersAndConditions: etags and time to live are those of a write without triggers,
// and the pre-trigger runs only if the write's conditions hold.
func TestTriggersAndConditions(t *testing.T) {
	ctx := t.Context()
	o := testOptions(vfs.NewMem())
	clock := newTestClock(o)
	_, c := openStore(t, o, ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	a := StringKey("a")
	var saw []TriggerOperation
	register(t, c, "saw", PreTrigger, 0, func(_ context.Context, call *TriggerCall) error {
		saw = append(saw, call.On)
		return nil
	})
	register(t, c, "lives", PreTrigger, 0, func(_ context.Context, call *TriggerCall) error {
		call.Document = []byte(`{"id":"y","k":"a","ttl":60}`)
		return nil
	})
	register(t, c, "writes it", PreTrigger, 0, func(_ context.Context, call *TriggerCall) error {
		return call.Tx.Upsert(doc(call.ID, "a", 9), nil)
	})
	named := func(o WriteOptions) *WriteOptions {
		o.PreTrigger = "saw"
		return &o
	}
	meta, err := c.Create(ctx, doc("x", "a", 1), named(WriteOptions{TTL: time.Minute}))
	must(t, err)
	if got := meta.Expires.Sub(meta.Modified); got != time.Minute {
		t.Errorf("it lives for %v", got)
	}
	if _, err := c.Create(ctx, doc("x", "a", 1), named(WriteOptions{})); !errors.Is(err, ErrExists) {
		t.Errorf("create: %v", err)
	}
	if _, err := c.Upsert(ctx, doc("x", "a", 1), named(WriteOptions{IfMatch: meta.ETag + 1})); !errors.Is(err, ErrPrecondition) {
		t.Errorf("another etag: %v", err)
	}
	if err := c.Delete(ctx, a, "x", named(WriteOptions{IfMatch: meta.ETag + 1})); !errors.Is(err, ErrPrecondition) {
		t.Errorf("another etag: %v", err)
	}
	if _, err := c.Patch(ctx, a, "x", new(Patch).Set("/n", 2).When(Eq("/n", 3)), named(WriteOptions{})); !errors.Is(err, ErrPrecondition) {
		t.Errorf("condition of the patch: %v", err)
	}
	if meta, err = c.Patch(ctx, a, "x", new(Patch).Set("/n", 2).When(Eq("/n", 1)), named(WriteOptions{IfMatch: meta.ETag, TTL: time.Hour})); err != nil || meta.Expires.Sub(meta.Modified) != time.Hour {
		t.Errorf("patch: %+v, %v", meta, err)
	}
	if _, err = c.Replace(ctx, doc("x", "a", 3), &WriteOptions{PreTrigger: "writes it", IfMatch: meta.ETag}); !errors.Is(err, ErrPrecondition) {
		t.Errorf("the trigger has written the item: %v", err)
	}
	clock.pass(2 * time.Hour)
	_, err = c.Create(ctx, doc("x", "a", 4), named(WriteOptions{})) // the old one has expired
	must(t, err)
	must(t, c.Delete(ctx, a, "x", named(WriteOptions{})))
	if want := []TriggerOperation{OnCreate, OnReplace, OnCreate, OnDelete}; !slices.Equal(saw, want) {
		t.Errorf("it ran for %v, want %v", saw, want)
	}
	if meta, err = c.Upsert(ctx, doc("y", "a", 1), &WriteOptions{PreTrigger: "lives"}); err != nil || meta.Expires.Sub(meta.Modified) != time.Minute {
		t.Errorf("ttl of the trigger's document: %+v, %v", meta, err)
	}
}

// TestTriggersOnKeys: unique keys hold for what triggers write, and a random suffix is drawn
// once.
func TestTriggersOnKeys(t *testing.T) {
	ctx := t.Context()
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{"/n"}}})
	copies := func(_ context.Context, call *TriggerCall) error {
		return call.Tx.Create(doc("copy", "a", 1), nil)
	}
	register(t, c, "copies", PostTrigger, 0, copies)
	var uk *UniqueKeyError
	if _, err := c.Create(ctx, doc("x", "a", 1), &WriteOptions{PostTrigger: "copies"}); !errors.As(err, &uk) {
		t.Errorf("two items with one value: %v", err)
	}
	_, err := c.Create(ctx, doc("x", "a", 2), &WriteOptions{PostTrigger: "copies"})
	must(t, err)
	spread, err := db.CreateContainer(ctx, "spread", ContainerDef{Synthetic: &SyntheticKey{Join: []string{"/k"}, Suffixes: 100}})
	must(t, err)
	var key PartitionKey
	register(t, spread, "key", PostTrigger, 0, func(_ context.Context, call *TriggerCall) error {
		key = call.Tx.Key()
		return nil
	})
	meta, err := spread.Create(ctx, doc("x", "a", 2), &WriteOptions{PostTrigger: "key"})
	must(t, err)
	if meta.Key != key {
		t.Errorf("written under %v, the trigger saw %v", meta.Key, key)
	}
	if meta, err = spread.Replace(ctx, doc("x", "a", 3), &WriteOptions{PostTrigger: "key", Key: key}); err != nil || meta.Key != key {
		t.Errorf("replaced under %v, %v", meta.Key, err)
	}
	if _, err = spread.Replace(ctx, doc("x", "a", 3), &WriteOptions{PostTrigger: "key"}); !errors.Is(err, ErrRandomSuffix) {
		t.Errorf("replace without the key: %v", err)
	}
}

// TestTriggersCharge: a write is charged what it and its triggers read and write.
func TestTriggersCharge(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	register(t, c, "reads", PreTrigger, 0, func(_ context.Context, call *TriggerCall) error {
		_, err := call.Tx.Read("none")
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("read of nothing: %v", err)
		}
		return nil
	})
	register(t, c, "writes", PostTrigger, 0, func(_ context.Context, call *TriggerCall) error {
		return call.Tx.Upsert(doc("log", "a", 1), nil)
	})
	body := doc("x", "a", 1)
	want := 2*cost.Failed + cost.Insert(len(body)) + cost.Insert(len(doc("log", "a", 1)))
	told := 0.0
	meta, err := c.Create(ctx, body, &WriteOptions{PreTrigger: "reads", PostTrigger: "writes", Charge: &told})
	must(t, err)
	if meta.Charge != want || told != want {
		t.Errorf("charge %v and %v, want %v", meta.Charge, told, want)
	}
	told = 0
	want = cost.Read(len(body)) + cost.Delete + cost.Insert(len(doc("log", "a", 1)))
	must(t, c.Delete(ctx, StringKey("a"), "x", &WriteOptions{PostTrigger: "writes", Charge: &told}))
	if told != want {
		t.Errorf("charge %v of a delete, want %v", told, want)
	}
}

// TestTriggersAreNotStored: a program registers its triggers after each open.
func TestTriggersAreNotStored(t *testing.T) {
	ctx := t.Context()
	o := testOptions(vfs.NewMem())
	nop := func(context.Context, *TriggerCall) error { return nil }
	db, c := openStore(t, o)
	register(t, c, "nop", PreTrigger, 0, nop)
	again, err := db.Container("c")
	must(t, err)
	_, err = again.Create(ctx, doc("x", "a", 1), &WriteOptions{PreTrigger: "nop"})
	must(t, err)
	must(t, db.Close())
	_, c = openStore(t, o)
	if _, err = c.Upsert(ctx, doc("x", "a", 2), &WriteOptions{PreTrigger: "nop"}); !errors.Is(err, ErrNoTrigger) {
		t.Errorf("after an open: %v", err)
	}
	register(t, c, "nop", PreTrigger, 0, nop)
	_, err = c.Upsert(ctx, doc("x", "a", 2), &WriteOptions{PreTrigger: "nop"})
	must(t, err)
}

// TestTriggersContext: a trigger gets the context of the write, and a write whose context
// ends in it is not made.
func TestTriggersContext(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()))
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "ann"))
	register(t, c, "by", PreTrigger, 0, func(ctx context.Context, call *TriggerCall) error {
		if ctx.Value(key{}) != "ann" {
			t.Error("another context")
		}
		cancel()
		return nil
	})
	if _, err := c.Create(ctx, doc("x", "a", 1), &WriteOptions{PreTrigger: "by"}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if got := bodies(t, c, StringKey("a")); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
}

// TestTriggersConflict: writers that count what they write, in one item, and single writes
// in between: the count is right, and every conflict is met inside.
func TestTriggersConflict(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	a := StringKey("a")
	register(t, c, "count", PostTrigger, OnCreate, func(_ context.Context, call *TriggerCall) error {
		err := call.Tx.Patch("count", new(Patch).Increment("/n", 1), nil)
		if errors.Is(err, ErrNotFound) {
			err = call.Tx.Create(doc("count", "a", 1), nil)
		}
		return err
	})
	const writers, each = 6, 20
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := 0; i < each; {
				_, err := c.Create(ctx, doc(fmt.Sprintf("%d.%d", w, i), "a", i), &WriteOptions{PostTrigger: "count"})
				switch {
				case err == nil:
					i++
				case !errors.Is(err, ErrConflict):
					t.Error(err)
					return
				}
				if w == 0 {
					if _, err = c.Upsert(ctx, doc("other", "a", i), nil); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	group.Wait()
	got := bodies(t, c, a)
	if want := string(doc("count", "a", writers*each)); got["count"] != want || len(got) != writers*each+2 {
		t.Errorf("%d items, %s, want %s", len(got), got["count"], want)
	}
}

// TestTriggersSerializable: two triggers that read what the other's write changes, and write
// different items, do not both let their writes pass.
func TestTriggersSerializable(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	errFull := errors.New("one item at most")
	var first sync.WaitGroup // the first try of each
	first.Add(2)
	tries := make(map[string]int)
	var mu sync.Mutex
	register(t, c, "room for one", PreTrigger, OnCreate, func(_ context.Context, call *TriggerCall) error {
		n := 0
		for _, err := range call.Tx.Scan(IDRange{}, nil) {
			if err != nil {
				return err
			}
			n++
		}
		mu.Lock()
		tries[call.ID]++
		try := tries[call.ID]
		mu.Unlock()
		if try == 1 {
			first.Done()
			first.Wait() // both have seen nothing
		}
		if n > 0 {
			return errFull
		}
		return nil
	})
	outcome := make(chan error, 2)
	for _, id := range []string{"x", "y"} {
		go func() { outcome <- second(c.Create(ctx, doc(id, "a", 1), &WriteOptions{PreTrigger: "room for one"})) }()
	}
	one, two := <-outcome, <-outcome
	if one == nil {
		one, two = two, one
	}
	if !errors.Is(one, errFull) || two != nil {
		t.Errorf("outcomes %v and %v", one, two)
	}
	if got := bodies(t, c, StringKey("a")); len(got) != 1 || tries["x"]+tries["y"] != 3 {
		t.Errorf("there is %v after %v", got, tries)
	}
}

// TestTriggersAndClose: a trigger holds up nothing: the store can be closed in it.
func TestTriggersAndClose(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	register(t, c, "close", PreTrigger, 0, func(context.Context, *TriggerCall) error { return db.Close() })
	if _, err := c.Create(t.Context(), doc("x", "a", 1), &WriteOptions{PreTrigger: "close"}); !errors.Is(err, ErrClosed) {
		t.Errorf("a write in a closed store: %v", err)
	}
}
