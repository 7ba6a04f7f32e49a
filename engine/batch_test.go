package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

func TestBatch(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	old, err := c.Upsert(ctx, doc("old", "a", 0), nil)
	must(t, err)
	b := c.NewBatch(StringKey("a"))
	must(t, b.Create(doc("x", "a", 1), nil))
	must(t, b.Replace(doc("old", "a", 2), &WriteOptions{IfMatch: old.ETag}))
	must(t, b.Replace(doc("x", "a", 3), nil)) // what the batch itself made
	must(t, b.Upsert(doc("y", "a", 4), nil))
	must(t, b.Delete("y", nil))
	must(t, b.Create(doc("y", "a", 5), nil))
	must(t, b.Delete("y", nil))
	size := 7 * len(StringKey("a").Encoded())
	for _, id := range []string{"x", "old", "x", "y", "y"} {
		size += len(id) + len(doc(id, "a", 1))
	}
	if size += len("y") + len("y"); b.Len() != 7 || b.Size() != int64(size) {
		t.Errorf("%d operations, %d bytes, want %d", b.Len(), b.Size(), size)
	}
	metas, err := c.Commit(ctx, b)
	must(t, err)
	if len(metas) != 7 || metas[2].ID != "x" || metas[2].ETag != metas[0].ETag+2 || metas[6].ETag != 0 || metas[6].Seq != metas[0].Seq+6 {
		t.Errorf("%+v", metas)
	}
	for id, want := range map[string]string{"x": string(doc("x", "a", 3)), "old": string(doc("old", "a", 2)), "y": ""} {
		it, err := c.Read(ctx, StringKey("a"), id)
		if want == "" {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
			continue
		}
		must(t, err)
		if string(it.Body) != want {
			t.Errorf("%s: %s", id, it.Body)
		}
	}
	if s := db.Stats(); s.Writes != 1+5 || s.Deletes != 2 {
		t.Errorf("%d writes, %d deletes", s.Writes, s.Deletes)
	}
	b.Reset()
	if b.Len() != 0 || b.Size() != 0 {
		t.Error("not empty after Reset")
	}
	if metas, err := c.Commit(ctx, b); err != nil || metas != nil {
		t.Errorf("empty batch: %v, %v", metas, err)
	}
}

// TestBatchRefused: a batch of which one operation fails leaves everything as it
// was, and tells which.
func TestBatchRefused(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	old, err := c.Upsert(ctx, doc("old", "a", 0), nil)
	must(t, err)
	for _, tc := range []struct {
		name  string
		fill  func(b *Batch) error
		index int
		op    string
		want  error
	}{
		{"exists", func(b *Batch) error { return b.Create(doc("old", "a", 2), nil) }, 1, "create", ErrExists},
		{"made before", func(b *Batch) error { return b.Create(doc("new", "a", 2), nil) }, 1, "create", ErrExists},
		{"missing", func(b *Batch) error { return b.Replace(doc("no", "a", 2), nil) }, 1, "replace", ErrNotFound},
		{"nothing to delete", func(b *Batch) error { return b.Delete("no", nil) }, 1, "delete", ErrNotFound},
		{"etag", func(b *Batch) error { return b.Upsert(doc("old", "a", 2), &WriteOptions{IfMatch: old.ETag + 1}) }, 1, "upsert", ErrPrecondition},
		{"etag of its own", func(b *Batch) error { return b.Upsert(doc("new", "a", 2), &WriteOptions{IfMatch: old.ETag}) }, 1, "upsert", ErrPrecondition},
		{"deleted before", func(b *Batch) error {
			must(t, b.Delete("old", nil))
			return b.Replace(doc("old", "a", 2), nil)
		}, 2, "replace", ErrNotFound},
		{"the first of two", func(b *Batch) error {
			must(t, b.Delete("no", nil))
			return b.Create(doc("old", "a", 2), nil)
		}, 1, "delete", ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := c.NewBatch(StringKey("a"))
			must(t, b.Upsert(doc("new", "a", 1), nil))
			must(t, tc.fill(b))
			metas, err := c.Commit(ctx, b)
			var be *BatchError
			if !errors.As(err, &be) || be.Index != tc.index || be.Op != tc.op || !errors.Is(err, tc.want) || metas != nil {
				t.Fatalf("%v, want %v of operation %d, %s", err, tc.want, tc.index, tc.op)
			}
			if _, err := c.Read(ctx, StringKey("a"), "new"); !errors.Is(err, ErrNotFound) {
				t.Errorf("the other operation: %v", err)
			}
			if it, err := c.Read(ctx, StringKey("a"), "old"); err != nil || it.ETag != old.ETag {
				t.Errorf("the old item: %v, %v", it.ETag, err)
			}
		})
	}
}

// TestBatchLimits: limits hold as operations are added, and a refused add
// leaves the batch as it was.
func TestBatchLimits(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	b := c.NewBatch(StringKey("a"))
	for i := range 100 {
		must(t, b.Upsert(doc(fmt.Sprint(i), "a", i), nil))
	}
	var le *LimitError
	if err := b.Upsert(doc("more", "a", 0), nil); !errors.As(err, &le) || !errors.Is(err, ErrTooLarge) || le.Size != 101 || le.Limit != 100 || !strings.Contains(err.Error(), "101 operations") {
		t.Errorf("operation 101: %v", err)
	}
	if metas, err := c.Commit(ctx, b); err != nil || len(metas) != 100 {
		t.Errorf("%d, %v", len(metas), err)
	}
	b.Reset()
	large := fmt.Appendf(nil, `{"id":"l","k":"a","v":%q}`, strings.Repeat("x", 1<<20))
	must(t, b.Upsert(large, nil))
	if err := b.Upsert(large, nil); !errors.As(err, &le) || le.Limit != 2<<20 || le.Size <= 2<<20 || b.Len() != 1 {
		t.Errorf("over 2 MiB: %v, %d operations", err, b.Len())
	}
	for name, add := range map[string]func() error{
		"key":        func() error { return b.Upsert(doc("x", "b", 0), nil) },
		"document":   func() error { return b.Upsert([]byte(`{"id":"x","k":"a"`), nil) },
		"id":         func() error { return b.Delete("", nil) },
		"durability": func() error { return b.Delete("x", &WriteOptions{Durability: Buffered}) },
		"opaque":     func() error { return b.Put("x", nil, nil) },
		"zero key":   func() error { return c.NewBatch(PartitionKey{}).Delete("x", nil) },
	} {
		want := ErrInvalid
		if name == "key" {
			want = ErrKeyMismatch
		}
		if err := add(); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b.Len() != 1 {
		t.Errorf("%d operations", b.Len())
	}
	if _, err := c.Commit(ctx, c.NewBatch(PartitionKey{})); !errors.Is(err, ErrInvalid) {
		t.Errorf("zero key: %v", err)
	}
	other, err := db.CreateContainer(ctx, "other", ContainerDef{Kind: Opaque, Limits: ContainerLimits{BatchOperations: 2, BatchBytes: 30}})
	must(t, err)
	if _, err := other.Commit(ctx, b); !errors.Is(err, ErrInvalid) {
		t.Errorf("batch of another container: %v", err)
	}
	small := other.NewBatch(StringKey("a"))
	must(t, small.Put("a/b", []byte("body"), nil))
	if err := small.Put("b", []byte(strings.Repeat("x", 20)), nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over 30 bytes: %v", err)
	}
	must(t, small.Delete("a/b", nil))
	if err := small.Delete("a/b", nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("third operation: %v", err)
	}
	if _, err := other.Commit(ctx, small); err != nil {
		t.Error(err)
	}
	if _, err := db.CreateContainer(ctx, "bad", ContainerDef{PartitionKey: []string{"/k"}, Limits: ContainerLimits{BatchBytes: 5 << 20}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("limit of 5 MiB: %v", err)
	}
}

// TestBatchDocumentsAreCopied: the caller may overwrite what it has added.
func TestBatchDocumentsAreCopied(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	b := c.NewBatch(StringKey("a"))
	for range 2 {
		buf := doc("x", "a", 7)
		must(t, b.Upsert(buf, nil))
		clear(buf)
		_, err := c.Commit(ctx, b)
		must(t, err)
		if it, err := c.Read(ctx, StringKey("a"), "x"); err != nil || string(it.Body) != string(doc("x", "a", 7)) {
			t.Errorf("%q, %v", it.Body, err)
		}
		b.Reset()
	}
}

// TestBatchFillsLogicalPartition: the limit of a logical partition holds for a
// batch as a whole, and what it replaces makes room.
func TestBatchFillsLogicalPartition(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	_, c := openStore(t, opts, ContainerDef{Kind: Opaque, Limits: ContainerLimits{LogicalPartitionBytes: 1000}})
	b := c.NewBatch(StringKey("a"))
	put := func(id string, n int) { must(t, b.Put(id, make([]byte, n), nil)) }
	commit := func(want error) {
		t.Helper()
		if _, err := c.Commit(ctx, b); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		b.Reset()
	}
	for range 5 { // more was written than the limit, less is there
		put("x", 400)
		put("y", 400)
		commit(nil)
	}
	put("z", 150)
	put("u", 100)
	commit(ErrLogicalPartitionFull)
	put("z", 300)
	put("x", 1)
	put("y", 300)
	put("z", 600) // only the last of an item counts
	commit(nil)
	put("u", 100)
	commit(ErrLogicalPartitionFull)
	must(t, b.Delete("z", nil))
	put("u", 600)
	commit(nil)
}
