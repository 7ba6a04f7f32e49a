package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

func TestBadDocuments(t *testing.T) {
	_, c := openStore(t, new(Options))
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, tc := range []struct {
		name, doc string
		want      error
		says      string
	}{
		{"not JSON", `{"id":"a",`, ErrInvalid, ""},
		{"nothing", ``, ErrInvalid, ""},
		{"not an object", `["a"]`, ErrInvalid, "object"},
		{"trailing bytes", `{"id":"a","k":1} x`, ErrInvalid, ""},
		{"no id", `{"k":"x"}`, ErrInvalid, "id"},
		{"number as id", `{"id":1,"k":"x"}`, ErrInvalid, "id"},
		{"empty id", `{"id":"","k":"x"}`, ErrInvalid, "id"},
		{"long id", `{"id":"` + strings.Repeat("i", 1024) + `","k":"x"}`, ErrInvalid, "id"},
		{"object as key", `{"id":"a","k":{}}`, ErrInvalid, "/k"},
		{"array as key", `{"id":"a","k":[1]}`, ErrInvalid, "/k"},
		{"duplicate name", `{"id":"a","k":1,"x":1,"x":2}`, ErrInvalid, "x"},
		{"duplicate after unescaping", `{"id":"a","k":1,"x":1,"\u0078":2}`, ErrInvalid, ""},
		{"bad UTF-8", "{\"id\":\"a\",\"k\":1,\"x\":\"\xff\"}", ErrInvalid, ""},
		{"too deep", `{"id":"a","k":1,"x":` + deep + `}`, ErrInvalid, ""},
		{"too large", `{"id":"a","k":1,"x":"` + strings.Repeat("x", 2<<20) + `"}`, ErrTooLarge, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Upsert(context.Background(), []byte(tc.doc), nil)
			var de *DocumentError
			if !errors.Is(err, tc.want) || !errors.As(err, &de) {
				t.Fatalf("%v: want %v and a *DocumentError", err, tc.want)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
		})
	}
	for it := range c.ScanAll(context.Background(), nil) {
		t.Errorf("%s was written", it.ID)
	}
}

func TestBadArguments(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, new(Options))
	if _, err := c.Read(ctx, PartitionKey{}, "a"); !errors.Is(err, ErrInvalid) {
		t.Errorf("zero key: %v", err)
	}
	if _, err := c.Read(ctx, JoinKeys(StringKey("a"), StringKey("b")), "a"); !errors.Is(err, ErrInvalid) {
		t.Errorf("two levels: %v", err)
	}
	if _, err := c.Read(ctx, StringKey("a"), ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("empty id: %v", err)
	}
	if _, err := c.Read(ctx, StringKey("a"), strings.Repeat("i", 1024)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("long id: %v", err)
	}
	if _, err := c.Put(ctx, StringKey("a"), "a", nil, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("Put into a JSON container: %v", err)
	}
	if _, err := db.Container("nothing"); !errors.Is(err, ErrNoContainer) || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("unknown container: %v", err)
	}
	if _, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}}); !errors.Is(err, ErrExists) {
		t.Errorf("second container: %v", err)
	}
	for name, def := range map[string]ContainerDef{
		"":     {PartitionKey: []string{"/k"}},
		"a/b":  {PartitionKey: []string{"/k"}},
		"none": {},
		"four": {PartitionKey: []string{"/a", "/b", "/c", "/d"}},
		"path": {PartitionKey: []string{"k"}},
		"many": {PartitionKey: []string{"/k"}, MinPartitions: 1 << 20},
	} {
		if _, err := db.CreateContainer(ctx, name, def); !errors.Is(err, ErrInvalid) {
			t.Errorf("container %q %+v: %v", name, def, err)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Upsert(canceled, []byte(`{"id":"a","k":1}`), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := Open(ctx, t.TempDir(), &Options{MemoryBudget: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("small budget: %v", err)
	}
}

func TestClosedStore(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, new(Options))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	for name, call := range map[string]func() error{
		"Upsert": func() error { _, err := c.Upsert(ctx, []byte(`{"id":"a","k":1}`), nil); return err },
		"Read":   func() error { _, err := c.Read(ctx, NumberKey(1), "a"); return err },
		"Scan": func() error {
			for _, err := range c.Scan(ctx, NumberKey(1), IDRange{}, nil) {
				return err
			}
			return nil
		},
		"Load": func() error {
			_, err := c.Load(ctx, func(func([]byte, error) bool) {}, nil)
			return err
		},
		"Snapshot":        func() error { _, err := c.Snapshot(ctx); return err },
		"Flush":           func() error { return db.Flush(ctx) },
		"Container":       func() error { _, err := db.Container("c"); return err },
		"CreateContainer": func() error { _, err := db.CreateContainer(ctx, "d", ContainerDef{}); return err },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadDirectories(t *testing.T) {
	ctx := context.Background()
	t.Run("second writer", func(t *testing.T) {
		db, _ := openStore(t, new(Options))
		if _, err := Open(ctx, db.Dir(), nil); !errors.Is(err, ErrLocked) {
			t.Errorf("%v", err)
		}
		reader, err := Open(ctx, db.Dir(), &Options{ReadOnly: true})
		if err != nil {
			t.Fatalf("beside a writer: %v", err)
		}
		defer reader.Close()
		c, err := reader.Container("c")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Upsert(ctx, []byte(`{"id":"a","k":1}`), nil); !errors.Is(err, ErrReadOnly) {
			t.Errorf("write to a read-only store: %v", err)
		}
	})
	t.Run("no store", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("dear"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{false, true} {
			_, err := Open(ctx, dir, &Options{ReadOnly: readOnly})
			if !errors.Is(err, ErrNotStore) || !strings.Contains(err.Error(), dir) {
				t.Errorf("read-only %v: %v", readOnly, err)
			}
		}
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("the directory was changed: %v", names)
		}
	})
	t.Run("absent and read-only", func(t *testing.T) {
		if _, err := Open(ctx, filepath.Join(t.TempDir(), "x"), &Options{ReadOnly: true}); err == nil {
			t.Error("opened")
		}
	})
	t.Run("a file", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(ctx, name, nil); err == nil {
			t.Error("opened")
		}
	})
	t.Run("newer format", func(t *testing.T) {
		mem := vfs.NewMem()
		head := "cleave-manifest store 99 who knows"
		sum := crc32.Checksum([]byte(head), crc32.MakeTable(crc32.Castagnoli))
		if err := mem.WriteFile("MANIFEST-0000000001", fmt.Appendf(nil, "%s %08x 0\n", head, sum)); err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(mem.Names())
		if _, err := Open(ctx, "x", testOptions(mem)); !errors.Is(err, ErrTooNew) {
			t.Errorf("%v", err)
		}
		if after := fmt.Sprint(mem.Names()); strings.ReplaceAll(after, "LOCK ", "") != strings.ReplaceAll(before, "LOCK ", "") {
			t.Errorf("changed %s to %s", before, after)
		}
	})
}

// TestLoadNamesTheDocument checks that a refused document is named by its place
// in the input and that those before it are in the store.
func TestLoadNamesTheDocument(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, new(Options))
	docs := func(yield func([]byte, error) bool) {
		for i := range 10 {
			doc, _ := json.Marshal(map[string]any{"id": fmt.Sprint(i), "k": 1})
			if i == 7 {
				doc = []byte(`{"id":""}`)
			}
			if !yield(doc, nil) {
				return
			}
		}
	}
	stats, err := c.Load(ctx, docs, nil)
	var input *InputError
	if !errors.As(err, &input) || input.Index != 7 || !errors.Is(err, ErrInvalid) {
		t.Fatalf("%v", err)
	}
	if stats.Committed != 7 {
		t.Errorf("committed %d", stats.Committed)
	}
	n := 0
	for _, err := range c.Scan(ctx, NumberKey(1), IDRange{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 7 {
		t.Errorf("%d documents", n)
	}
}

// TestLogicalPartitionLimit checks that a full logical partition refuses
// writes, lets others go on, and takes writes again after deletes.
func TestLogicalPartitionLimit(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, new(Options), ContainerDef{PartitionKey: []string{"/k"}, Limits: ContainerLimits{LogicalPartitionBytes: 10_000}})
	var err error
	doc := func(k string, i int) []byte {
		return fmt.Appendf(nil, `{"id":"%d","k":%q,"v":%q}`, i, k, strings.Repeat("v", 950))
	}
	n := 0
	for ; n < 100; n++ {
		if _, err = c.Upsert(ctx, doc("full", n), nil); err != nil {
			break
		}
		if n == 4 {
			if err := db.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	var limit *LimitError
	if !errors.Is(err, ErrLogicalPartitionFull) || !errors.As(err, &limit) || limit.Limit != 10_000 {
		t.Fatalf("after %d documents: %v", n, err)
	}
	if n < 8 || n > 10 {
		t.Errorf("%d documents of about 1,000 bytes", n)
	}
	// Overwriting does not add.
	for range 20 {
		if _, err := c.Upsert(ctx, doc("full", 1), nil); err != nil {
			t.Fatalf("overwrite: %v", err)
		}
	}
	if _, err := c.Upsert(ctx, doc("other", 1), nil); err != nil {
		t.Errorf("another key: %v", err)
	}
	if err := c.Delete(ctx, StringKey("full"), "0", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Upsert(ctx, doc("full", 200), nil); err != nil {
		t.Errorf("after a delete: %v", err)
	}
}

// TestNearlyFull is told once that a logical partition is nearly full, and
// refused writes do not count.
func TestNearlyFull(t *testing.T) {
	ctx := context.Background()
	events := make(chan NearlyFullEvent, 10)
	opts := testOptions(vfs.NewMem())
	opts.Events = &EventListener{NearlyFull: func(e NearlyFullEvent) { events <- e }}
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Limits: ContainerLimits{LogicalPartitionBytes: 10_000}})
	create := func(k string, i int) error {
		doc := fmt.Appendf(nil, `{"id":"%03d","k":%q,"v":"`, i, k)
		doc = append(append(doc, strings.Repeat("v", 1000-len(doc)-2)...), `"}`...)
		_, err := c.Create(ctx, doc, nil)
		return err
	}
	for i := range 12 { // more than one may hold
		if err := create(fmt.Sprint("other", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		if err := create("full", i); err != nil {
			t.Fatal(i, err)
		}
		for range 3 {
			if err := create("full", 0); err != ErrExists {
				t.Fatal(i, err)
			}
		}
	}
	if err := create("full", 10); !errors.Is(err, ErrLogicalPartitionFull) {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, StringKey("full"), "000", nil); err != nil {
		t.Fatal(err)
	}
	if err := create("full", 10); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	close(events)
	var got []NearlyFullEvent
	for e := range events {
		got = append(got, e)
	}
	want := NearlyFullEvent{Container: "c", Partition: 1, Key: StringKey("full"), Bytes: 9000, Limit: 10_000}
	if len(got) != 1 || got[0] != want {
		t.Errorf("events %+v, want %+v", got, want)
	}
}

// TestNilArguments: what is needed and not given is named, and nothing panics.
func TestNilArguments(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, new(Options))
	put := func(id string) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) { yield(doc(id, "a", 1), nil) }
	}
	_, err := c.Upsert(ctx, doc("i", "a", 1), nil)
	must(t, err)
	second := func(_ any, err error) error { return err }
	failure := func(docs iter.Seq2[Item, error]) (failed error) {
		for _, err := range docs {
			failed = errors.Join(failed, err)
		}
		return failed
	}
	for name, err := range map[string]error{
		"Borrow":       c.Borrow(ctx, StringKey("a"), "i", nil),
		"Update":       c.Update(ctx, StringKey("a"), nil),
		"View":         c.View(ctx, StringKey("a"), nil),
		"Commit":       second(c.Commit(ctx, nil)),
		"Patch":        second(c.Patch(ctx, StringKey("a"), "i", nil, nil)),
		"Load":         second(c.Load(ctx, nil, nil)),
		"Backup":       second(db.Backup(ctx, nil, nil)),
		"ScanReadable": failure(c.ScanReadable(ctx, PartitionKey{}, nil)),
		"Skip":         second(c.Load(ctx, put("j"), &LoadOptions{Skip: 2})),
	} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnyID: an id may be any text: slashes, blanks and control characters do not matter.
func TestAnyID(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	for _, id := range []string{"a/b", `a\b`, "/", " a ", "a\tb\r\n", "../..", "a%2fb", "?#", "鱀", "\x00"} {
		doc, err := json.Marshal(map[string]string{"id": id, "k": "x"})
		must(t, err)
		if _, err := c.Create(ctx, doc, nil); err != nil {
			t.Errorf("create %q: %v", id, err)
		}
		if it, err := c.Read(ctx, StringKey("x"), id); err != nil || it.ID != id || !bytes.Equal(it.Body, doc) {
			t.Errorf("read %q: %q: %v", id, it.ID, err)
		}
		must(t, c.Delete(ctx, StringKey("x"), id, nil))
	}
}
