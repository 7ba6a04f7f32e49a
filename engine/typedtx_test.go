package engine

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestTypedWrites: what a typed container writes, in calls of its own, batches and
// transactions, and what it shows of that.
func TestTypedWrites(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	accounts := Typed[account](c, nil)
	pk := StringKey("a")
	b := accounts.NewBatch(pk)
	must(t, errors.Join(b.Create(account{"x", "a", 10}, nil), b.Upsert(account{"y", "a", 20}, nil), b.Upsert(account{"z", "a", 30}, nil),
		b.Replace(account{"y", "a", 21}, nil), b.Patch("x", new(Patch).Increment("/balance", 1), nil), b.Delete("z", nil)))
	metas, err := accounts.Commit(ctx, b)
	must(t, err)
	if len(metas) != 6 || b.Charge() == 0 {
		t.Errorf("%d operations for %v", len(metas), b.Charge())
	}
	must(t, accounts.Update(ctx, pk, func(tx TypedTx[account]) error {
		from, err := tx.Read("x")
		if err != nil {
			return err
		}
		to, err := tx.Read("y")
		if err != nil {
			return err
		}
		from.Value.Balance -= 5
		to.Value.Balance += 5
		if _, err := tx.Read("none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("read of nothing: %v", err)
		}
		return errors.Join(tx.Replace(from.Value, nil), tx.Upsert(to.Value, nil), tx.Create(account{"w", "a", 1}, nil),
			tx.Patch("w", new(Patch).Increment("/balance", 1), nil))
	}))
	must(t, accounts.View(ctx, pk, func(tx TypedTx[account]) error {
		sum := 0
		for it, err := range tx.Scan(IDRange{From: "w", Before: "y"}, nil) {
			must(t, err)
			sum += it.Value.Balance
		}
		if sum != 2+6 || tx.Charge() == 0 {
			t.Errorf("sum %d for %v", sum, tx.Charge())
		}
		return nil
	}))
	_, err = accounts.UpdateWith(ctx, pk, nil, func(tx TypedTx[account]) error { return tx.Delete("w", nil) })
	must(t, err)
	meta, err := accounts.Patch(ctx, pk, "x", new(Patch).Set("/balance", 100), nil)
	must(t, err)
	if _, err := accounts.ReadIf(ctx, pk, "x", meta.ETag); !errors.Is(err, ErrNotModified) {
		t.Errorf("ReadIf: %v", err)
	}
	if it, err := accounts.ReadIf(ctx, pk, "x", meta.ETag+1); err != nil || it.Value.Balance != 100 {
		t.Errorf("ReadIf: %+v, %v", it, err)
	}
	var found []bool
	for r, err := range accounts.ReadMany(ctx, []ItemIdentity{{pk, "y"}, {pk, "w"}, {StringKey("b"), "y"}, {pk, "x"}}) {
		must(t, err)
		if r.Found != (r.Value.ID != "") || r.ID == "" || r.Charge < 1 {
			t.Errorf("%+v", r)
		}
		found = append(found, r.Found)
	}
	if len(found) != 4 || !found[0] || found[1] || found[2] || !found[3] {
		t.Errorf("found %v", found)
	}
	seen := map[string]int{}
	for ch, err := range accounts.Changes(ctx, AllPartitions(), ChangePosition{}, nil) {
		must(t, err)
		seen[ch.ID] = ch.Value.Balance
		if ch.Kind != ChangeWritten || ch.Position().String() == (ChangePosition{}).String() {
			t.Errorf("%+v", ch)
		}
	}
	if len(seen) != 2 || seen["x"] != 100 || seen["y"] != 26 {
		t.Errorf("changes %v", seen)
	}
	must(t, accounts.Delete(ctx, pk, "y", nil))
	if n, err := accounts.Count(ctx, AllPartitions(), Filter{}); err != nil || n != 1 {
		t.Errorf("count %d, %v", n, err)
	}
	if err := accounts.Update(ctx, pk, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no function: %v", err)
	}
	loaded := func(yield func(account, error) bool) {
		_ = yield(account{"l1", "l", 1}, nil) && yield(account{"l2", "l", 2}, nil)
	}
	if st, err := accounts.Load(ctx, loaded, nil); err != nil || st.Committed != 2 || st.Charge < 10 {
		t.Errorf("load: %+v, %v", st, err)
	}
	if it, err := accounts.Read(ctx, StringKey("l"), "l2"); err != nil || it.Value.Balance != 2 {
		t.Errorf("what was loaded: %+v, %v", it, err)
	}
	if _, err := accounts.Load(ctx, nil, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("load of nothing: %v", err)
	}
	var ie *InputError
	functions := func(yield func(func(), error) bool) { yield(func() {}, nil) }
	if st, err := Typed[func()](c, nil).Load(ctx, functions, nil); !errors.As(err, &ie) || ie.Index != 0 || st.Committed != 0 {
		t.Errorf("load of what has no document: %+v, %v", st, err)
	}
	if n, st, err := accounts.CountStats(ctx, OnePartition(StringKey("l")), Filter{}); err != nil || n != 2 || st.Charge == 0 {
		t.Errorf("count %d, %+v, %v", n, st, err)
	}
	if plan, err := accounts.Explain(ctx, OnePartition(StringKey("l")), Query{}); err != nil || len(plan.Partitions) != 1 {
		t.Errorf("plan %+v, %v", plan, err)
	}
	_, err = c.Upsert(ctx, []byte(`{"id":"bad","k":"a","balance":"much"}`), nil)
	must(t, err)
	var te *json.UnmarshalTypeError
	for r, err := range accounts.ReadMany(ctx, []ItemIdentity{{pk, "bad"}, {pk, "x"}}) {
		if !errors.As(err, &te) {
			t.Errorf("another document: %+v, %v", r, err)
		}
	}
}

// TestReadMany: one result for each request, in order, also of a snapshot; the loop ends with
// the first request that has none.
func TestReadMany(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4})
	for _, k := range []string{"a", "b", "c"} {
		_, err := c.Upsert(ctx, doc("x", k, 1), nil)
		must(t, err)
	}
	snapshot, err := c.Snapshot(ctx)
	must(t, err)
	defer snapshot.Close()
	must(t, c.Delete(ctx, StringKey("b"), "x", nil))
	asked := []ItemIdentity{{StringKey("c"), "x"}, {StringKey("b"), "x"}, {StringKey("a"), "none"}, {StringKey("c"), "x"}, {StringKey("a"), "x"}}
	for _, tc := range []struct {
		name string
		got  func(yield func(ReadManyResult, error) bool)
		want []bool
	}{
		{"present", c.ReadMany(ctx, asked), []bool{true, false, false, true, true}},
		{"snapshot", snapshot.ReadMany(ctx, asked), []bool{true, true, false, true, true}},
	} {
		i := 0
		for r, err := range tc.got {
			must(t, err)
			if r.Key != asked[i].Key || r.ID != asked[i].ID || r.Found != tc.want[i] || r.Found != (r.Body != nil) || r.Charge != 1 {
				t.Errorf("%s, request %d: %+v", tc.name, i, r)
			}
			i++
		}
		if i != len(asked) {
			t.Errorf("%s: %d results", tc.name, i)
		}
	}
	asked[1].ID = ""
	n := 0
	for _, err := range c.ReadMany(ctx, asked) {
		if n++; (n == 2) != errors.Is(err, ErrInvalid) {
			t.Errorf("result %d: %v", n, err)
		}
	}
	if n != 2 {
		t.Errorf("%d results", n)
	}
}
