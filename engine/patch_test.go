package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

func TestPatch(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	key := StringKey("a")
	old, err := c.Upsert(ctx, []byte(`{"id":"x","k":"a","n":1,"l":[1,2],"o":{"p":null}}`), nil)
	must(t, err)
	must(t, db.Flush(ctx)) // read from a file
	meta, err := c.Patch(ctx, key, "x", new(Patch).Set("/s", "t").Add("/l/0", 0).Increment("/n", 2).
		Replace("/o/p", json.RawMessage(`{"q": 1}`)).Move("/o/p/q", "/q").Remove("/l/2"), &WriteOptions{IfMatch: old.ETag})
	must(t, err)
	it, err := c.Read(ctx, key, "x")
	must(t, err)
	if want := `{"id":"x","k":"a","n":3,"l":[0,1],"o":{"p":{}},"s":"t","q":1}`; string(it.Body) != want || it.ETag != meta.ETag || meta.ID != "x" {
		t.Errorf("%s %+v\nwant %s", it.Body, meta, want)
	}
	var pe *PatchError
	for _, tc := range []struct {
		name  string
		id    string
		patch *Patch
		o     *WriteOptions
		want  error
		index int // of the change, -1: no PatchError
	}{
		{"missing item", "no", new(Patch).Set("/n", 1), nil, ErrNotFound, -1},
		{"etag", "x", new(Patch).Set("/n", 1), &WriteOptions{IfMatch: old.ETag}, ErrPrecondition, -1},
		{"condition", "x", new(Patch).Set("/n", 1).When(Eq("/n", 4)), nil, ErrPrecondition, -1},
		{"undefined condition", "x", new(Patch).When(Ne("/no", 4)).Set("/n", 1), nil, ErrPrecondition, -1},
		{"one of two conditions", "x", new(Patch).When(Eq("/n", 3)).When(Exists("/no")).Set("/n", 1), nil, ErrPrecondition, -1},
		{"condition on a missing item", "no", new(Patch).When(Eq("/n", 3)).Set("/n", 1), nil, ErrNotFound, -1},
		{"bad condition", "x", new(Patch).When(Eq("n", 3)).Set("/n", 1), nil, ErrInvalid, -1},
		{"missing place", "x", new(Patch).Set("/n", 1).Remove("/no"), nil, ErrInvalid, 1},
		{"no number", "x", new(Patch).Increment("/s", 1), nil, ErrInvalid, 0},
		{"bad path", "x", new(Patch).Set("n", 1), nil, ErrInvalid, 0},
		{"bad value", "x", new(Patch).Set("/n", 1).Set("/n", func() {}), nil, ErrInvalid, 1},
		{"empty", "x", new(Patch), nil, ErrInvalid, -1},
		{"too many", "x", new(Patch).Set("/n", 1).Set("/n", 1).Set("/n", 1).Set("/n", 1).Set("/n", 1).Set("/n", 1).
			Set("/n", 1).Set("/n", 1).Set("/n", 1).Set("/n", 1).Set("/n", 1), nil, ErrInvalid, 10},
		{"id", "x", new(Patch).Set("/id", "y"), nil, ErrInvalid, -1},
		{"no id", "x", new(Patch).Remove("/id"), nil, ErrInvalid, -1},
		{"key", "x", new(Patch).Set("/k", "b"), nil, ErrKeyMismatch, -1},
		{"duplicate name", "x", new(Patch).Set("/n", json.RawMessage(`{"a":1,"a":2}`)), nil, ErrInvalid, -1},
		{"too large", "x", new(Patch).Set("/n", strings.Repeat("x", 2<<20)), nil, ErrTooLarge, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Patch(ctx, key, tc.id, tc.patch, tc.o)
			if !errors.Is(err, tc.want) || errors.As(err, &pe) != (tc.index >= 0) || tc.index >= 0 && pe.Index != tc.index {
				t.Errorf("%v, want %v at %d", err, tc.want, tc.index)
			}
			if now, err := c.Read(ctx, key, "x"); err != nil || now.ETag != it.ETag {
				t.Errorf("the item: %v, %v", now.ETag, err)
			}
		})
	}
}

// TestPatchInBatch: patches of a batch see what operations before them leave,
// and the first operation that fails is reported, whatever comes behind it.
func TestPatchInBatch(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	b := c.NewBatch(StringKey("a"))
	for range 2 { // a batch may be committed again
		b.Reset()
		must(t, b.Upsert(doc("x", "a", 1), nil))
		must(t, b.Patch("x", new(Patch).Increment("/n", 1), nil))
		must(t, b.Patch("x", new(Patch).Increment("/n", 1), nil))
		for range 2 {
			_, err := c.Commit(ctx, b)
			must(t, err)
			if it, err := c.Read(ctx, StringKey("a"), "x"); err != nil || string(it.Body) != string(doc("x", "a", 3)) {
				t.Errorf("%s, %v", it.Body, err)
			}
		}
	}
	for _, tc := range []struct {
		name  string
		fill  func()
		index int
		want  error
	}{
		{"behind a patch that fails", func() {
			must(t, b.Patch("x", new(Patch).Remove("/no"), nil))
			must(t, b.Create(doc("x", "a", 1), nil))
		}, 0, ErrInvalid},
		{"before a patch that fails", func() {
			must(t, b.Create(doc("x", "a", 1), nil))
			must(t, b.Patch("x", new(Patch).Remove("/no"), nil))
		}, 0, ErrExists},
		{"a patch of a failed one", func() {
			must(t, b.Patch("x", new(Patch).Remove("/no"), nil))
			must(t, b.Patch("x", new(Patch).Set("/n", 1), nil))
		}, 0, ErrInvalid},
		{"after a delete", func() {
			must(t, b.Delete("x", nil))
			must(t, b.Patch("x", new(Patch).Set("/n", 1), nil))
		}, 1, ErrNotFound},
	} {
		b.Reset()
		tc.fill()
		_, err := c.Commit(ctx, b)
		var be *BatchError
		if !errors.Is(err, tc.want) || !errors.As(err, &be) || be.Index != tc.index {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	b.Reset()
	must(t, b.Patch("x", new(Patch).Set("/v", strings.Repeat("x", 1<<20)), nil))
	must(t, b.Patch("x", new(Patch).Set("/w", strings.Repeat("x", 1<<19)), nil))
	var le *LimitError
	if _, err := c.Commit(ctx, b); !errors.As(err, &le) || le.What != "batch" {
		t.Errorf("documents of 2.5 MiB together: %v", err)
	}
	must(t, c.Update(ctx, StringKey("a"), func(tx *Tx) error {
		old := &WriteOptions{IfMatch: 1}
		if err := tx.Patch("x", new(Patch).Remove("/no"), old); !errors.Is(err, ErrPrecondition) {
			t.Errorf("a patch that fails, of another version: %v", err)
		}
		must(t, tx.Patch("x", new(Patch).Increment("/n", 10), nil))
		must(t, tx.Patch("x", new(Patch).Increment("/n", 10), nil))
		if err := tx.Patch("no", new(Patch).Increment("/n", 10), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("missing item: %v", err)
		}
		return nil
	}))
	if it, err := c.Read(ctx, StringKey("a"), "x"); err != nil || string(it.Body) != string(doc("x", "a", 23)) {
		t.Errorf("%s, %v", it.Body, err)
	}
}

// TestPatchConcurrent: no increment is lost.
func TestPatchConcurrent(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(nil)
	opts.fs, opts.manual = nil, false
	db, c := openStore(t, opts)
	_, err := c.Upsert(ctx, doc("x", "a", 0), nil)
	must(t, err)
	var workers sync.WaitGroup
	const each = 50
	for w := range 4 {
		workers.Go(func() {
			for i := range each {
				o := &WriteOptions{Durability: Buffered}
				if (w+i)%5 == 0 {
					o.Durability = Synced
				}
				if _, err := c.Patch(ctx, StringKey("a"), "x", new(Patch).Increment("/n", 1), o); err != nil {
					t.Error(err)
				}
				if w == 0 && i%10 == 0 {
					if err := db.Flush(ctx); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	workers.Wait()
	if it, err := c.Read(ctx, StringKey("a"), "x"); err != nil || string(it.Body) != fmt.Sprintf(`{"id":"x","k":"a","n":%d}`, 4*each) {
		t.Errorf("%s, %v", it.Body, err)
	}
}

// TestPatchApply: a patch can be applied to a document without a container, and is refused as by one.
func TestPatchApply(t *testing.T) {
	doc := []byte(`{"id":"1","n":1}`)
	got, err := new(Patch).Increment("/n", 2).Set("/m", "x").Apply(t.Context(), doc, 0)
	if want := `{"id":"1","n":3,"m":"x"}`; err != nil || string(got) != want || string(doc) != `{"id":"1","n":1}` {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	for _, c := range []struct {
		p    *Patch
		doc  string
		want error
	}{
		{new(Patch).Set("/m", 1), `{"id":`, ErrInvalid},
		{new(Patch), `{}`, ErrInvalid},
		{new(Patch).Remove("/none"), `{"id":"1"}`, ErrInvalid},
		{new(Patch).Set("/m", 1).When(Eq("/n", 2)), `{"n":1}`, ErrPrecondition},
	} {
		if got, err := c.p.Apply(t.Context(), []byte(c.doc), 0); !errors.Is(err, c.want) {
			t.Errorf("%s: %s, %v; want %v", c.doc, got, err, c.want)
		}
	}
}

// TestPatchWhenComputed: conditions that are computed hold for the documents for which they hold in
// queries, also those on the etag. Within a batch or transaction the etag of what it has written
// is not known. A condition that cannot be computed is not one that is not true.
func TestPatchWhenComputed(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	key := StringKey("a")
	meta, err := c.Create(ctx, []byte(`{"id":"x","k":"a","n":1,"t":[1,2]}`), nil)
	must(t, err)
	where := func(text string, tag ETag) Filter {
		q, err := ParseQuery("SELECT * FROM c WHERE "+text, map[string]any{"tag": tag.String()})
		must(t, err)
		return q.Where
	}
	patch := func(text string, tag ETag) *Patch { return new(Patch).When(where(text, tag)).Set("/seen", text) }
	const onETag = "c.n + 0 = 1 AND DOCUMENTETAG(c) = @tag"
	must(t, c.RegisterTrigger("pre", Trigger{Type: PreTrigger, On: OnReplace, Run: func(context.Context, *TriggerCall) error { return nil }}))
	ways := map[string]func(p *Patch) error{
		"patch": func(p *Patch) error { return second(c.Patch(ctx, key, "x", p, nil)) },
		"trigger": func(p *Patch) error {
			return second(c.Patch(ctx, key, "x", p, &WriteOptions{PreTrigger: "pre"}))
		},
		"transaction": func(p *Patch) error { return c.Update(ctx, key, func(tx *Tx) error { return tx.Patch("x", p, nil) }) },
		"apply": func(p *Patch) error {
			it, err := c.Read(ctx, key, "x")
			must(t, err)
			return second(p.Apply(ctx, it.Body, it.ETag))
		},
	}
	for name, way := range ways {
		it, err := c.Read(ctx, key, "x")
		must(t, err)
		if err := way(patch(onETag, it.ETag)); err != nil {
			t.Errorf("%s: the present etag: %v", name, err)
		}
		if name != "apply" {
			if err := way(patch(onETag, it.ETag)); !errors.Is(err, ErrPrecondition) {
				t.Errorf("%s: the etag before: %v", name, err)
			}
		}
		if err := way(patch("c.n = 2 OR (SELECT VALUE x FROM x IN c.t) = 1", 0)); errors.Is(err, ErrPrecondition) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: a subquery with several results: %v", name, err)
		}
	}
	it, err := c.Read(ctx, key, "x")
	must(t, err)
	b := c.NewBatch(key)
	must(t, b.Patch("x", patch("c.n + 0 = 1", 0), nil))
	must(t, b.Patch("x", patch(onETag, it.ETag), nil))
	_, err = c.Commit(ctx, b)
	if be, ok := errors.AsType[*BatchError](err); !ok || be.Index != 1 || !errors.Is(err, ErrPrecondition) {
		t.Errorf("the etag of what the batch has written: %v", err)
	}
	if err := c.Update(ctx, key, func(tx *Tx) error {
		must(t, tx.Patch("x", patch("c.n + 0 = 1", 0), nil))
		return tx.Patch("x", patch(onETag, it.ETag), nil)
	}); !errors.Is(err, ErrPrecondition) {
		t.Errorf("the etag of what the transaction has written: %v", err)
	}
	if _, err := new(Patch).When(where(onETag, meta.ETag)).Remove("/n").Apply(ctx, []byte(`{"n":1}`), 0); !errors.Is(err, ErrPrecondition) {
		t.Errorf("a document without an etag: %v", err)
	}
}

// TestPatchWhenEnds: the test of a condition on a document that has much to compute ends with the context of the call.
func TestPatchWhenEnds(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()))
	key := StringKey("a")
	must(t, second(c.Create(t.Context(), []byte(`{"id":"x","k":"a","t":[`+strings.Repeat("1,", 399)+`1]}`), nil)))
	must(t, c.RegisterTrigger("pre", Trigger{Type: PreTrigger, On: OnReplace, Run: func(context.Context, *TriggerCall) error { return nil }}))
	q, err := ParseQuery("SELECT * FROM c WHERE NOT EXISTS(SELECT VALUE 1 FROM p IN c.t JOIN q IN c.t WHERE p + q = 3)", nil)
	must(t, err)
	p := new(Patch).When(q.Where).Set("/seen", true)
	for name, way := range map[string]func(context.Context) error{
		"patch": func(ctx context.Context) error { return second(c.Patch(ctx, key, "x", p, nil)) },
		"trigger": func(ctx context.Context) error {
			return second(c.Patch(ctx, key, "x", p, &WriteOptions{PreTrigger: "pre"}))
		},
		"transaction": func(ctx context.Context) error {
			return c.Update(ctx, key, func(tx *Tx) error { return tx.Patch("x", p, nil) })
		},
	} {
		if err := way(&randtest.AskedContext{Context: t.Context(), Left: 100}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, way(t.Context()))
	}
}

// TestPatchWhen: conditions hold for the document as the patch meets it, in
// batches and transactions too, with others beside it.
func TestPatchWhen(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	key := StringKey("a")
	_, err := c.Create(ctx, doc("x", "a", 0), nil)
	must(t, err)
	below := func() *Patch { return new(Patch).When(Range("/n", Unbounded(), Excl(5))).Increment("/n", 1) }
	b := c.NewBatch(key)
	must(t, b.Patch("x", below(), nil))
	must(t, b.Patch("x", new(Patch).When(Eq("/n", 1)).Set("/seen", true), nil))
	_, err = c.Commit(ctx, b)
	must(t, err)
	_, err = c.Commit(ctx, b)
	if be, ok := errors.AsType[*BatchError](err); !ok || be.Index != 1 || !errors.Is(err, ErrPrecondition) {
		t.Errorf("batch: %v", err)
	}
	if err := c.Update(ctx, key, func(tx *Tx) error {
		must(t, tx.Patch("x", below(), nil))
		return tx.Patch("x", new(Patch).When(Eq("/n", 1)).Set("/n", 9), nil)
	}); !errors.Is(err, ErrPrecondition) {
		t.Errorf("transaction: %v", err)
	}
	var made, refused atomic.Int64
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 4 {
				if _, err := c.Patch(ctx, key, "x", below(), nil); err == nil {
					made.Add(1)
				} else if errors.Is(err, ErrPrecondition) {
					refused.Add(1)
				}
			}
		})
	}
	workers.Wait()
	if made.Load() != 4 || refused.Load() != 12 {
		t.Errorf("%d patches made, %d refused", made.Load(), refused.Load())
	}
}
