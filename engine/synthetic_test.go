package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

func reading(id, day string, n int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"day":%q,"n":%d}`, id, day, n)
}

// TestSyntheticJoined: every way to write a document agrees on its key, which
// survives a reopening.
func TestSyntheticJoined(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	def := ContainerDef{Synthetic: &SyntheticKey{Join: []string{"/day", "/n"}}, Index: IndexAll()}
	db, c := openStore(t, testOptions(mem), def)
	key := StringKey("mon|7")
	meta, err := c.Create(ctx, reading("a", "mon", 7), nil)
	must(t, err)
	if meta.Key != key {
		t.Fatalf("key %s", meta.Key)
	}
	for _, made := range []func() (PartitionKey, error){
		func() (PartitionKey, error) { return c.KeyOf(reading("x", "mon", 7)) },
		func() (PartitionKey, error) { return c.DerivedKey(StringKey("mon"), NumberKey(7)) },
		func() (PartitionKey, error) {
			keys, err := c.BaseKeys(StringKey("mon"), NumberKey(7))
			if len(keys) != 1 {
				t.Errorf("keys %v", keys)
			}
			return keys[0], err
		},
	} {
		if got, err := made(); err != nil || got != key {
			t.Errorf("key %s, %v", got, err)
		}
	}
	if _, err := c.Create(ctx, reading("a", "mon", 7), nil); !errors.Is(err, ErrExists) {
		t.Errorf("Create again: %v", err)
	}
	_, err = c.Upsert(ctx, reading("b", "mon", 7), nil)
	must(t, err)
	_, err = c.Replace(ctx, reading("a", "mon", 7), &WriteOptions{Key: key})
	must(t, err)
	_, err = c.Load(ctx, func(yield func([]byte, error) bool) { yield(reading("c", "mon", 7), nil) }, nil)
	must(t, err)
	_, err = Typed[map[string]any](c, nil).Create(ctx, map[string]any{"id": "d", "day": "mon", "n": 7}, nil)
	must(t, err)
	b := c.NewBatch(key)
	must(t, b.Create(reading("e", "mon", 7), nil))
	must(t, b.Patch("a", new(Patch).Set("/seen", true), nil))
	_, err = c.Commit(ctx, b)
	must(t, err)
	must(t, c.Update(ctx, key, func(tx *Tx) error { return tx.Upsert(reading("f", "mon", 7), nil) }))

	for name, err := range map[string]error{
		"patch":  second(c.Patch(ctx, key, "a", new(Patch).Set("/n", 8), nil)),
		"batch":  b.Upsert(reading("e", "mon", 8), nil),
		"update": c.Update(ctx, key, func(tx *Tx) error { return tx.Upsert(reading("f", "tue", 7), nil) }),
		"key":    second(c.Upsert(ctx, reading("a", "mon", 7), &WriteOptions{Key: StringKey("mon|8")})),
		"other":  b.Upsert(reading("e", "mon", 7), &WriteOptions{Key: StringKey("mon|8")}),
	} {
		if !errors.Is(err, ErrKeyMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Upsert(ctx, []byte(`{"id":"g","day":[],"n":1}`), nil); !errors.As(err, new(*DocumentError)) {
		t.Errorf("a list in the key: %v", err)
	}
	if _, err := c.Upsert(ctx, reading("g", strings.Repeat("|", 1024), 1), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a key that is too long: %v", err)
	}
	must(t, db.Close())
	db, c = openStore(t, testOptions(mem), def)
	if got := c.Def(); !got.Synthetic.rule().Equal(def.Synthetic.rule()) || got.KeyText() != "/day|/n" || len(got.PartitionKey) != 0 {
		t.Errorf("definition %+v", got)
	}
	var ids []string
	for it, err := range c.Scan(ctx, key, IDRange{}, nil) {
		must(t, err)
		ids = append(ids, it.ID)
	}
	if want := []string{"a", "b", "c", "d", "e", "f"}; !slices.Equal(ids, want) {
		t.Errorf("items %v, want %v", ids, want)
	}
	r := c.Query(ctx, AllPartitions(), Query{Where: And(Eq("/day", "mon"), Eq("/n", 7))})
	if list, err := results(r); err != nil || len(list) != 6 {
		t.Errorf("%v, %v", list, err)
	}
	p, err := c.Explain(ctx, AllPartitions(), Query{Where: And(Eq("/day", "mon"), Eq("/n", 7))})
	if err != nil || p.Scope != `partition "mon|7"` {
		t.Errorf("scope %s, %v", p.Scope, err)
	}
	other := def
	other.Synthetic = &SyntheticKey{Join: []string{"/n", "/day"}}
	if _, err := db.EnsureContainer(ctx, "c", other); !errors.Is(err, ErrExists) {
		t.Errorf("another rule: %v", err)
	}
}

// TestSyntheticSuffixes: a query by the base value asks the suffixes, in order,
// with continuation, through splits, and sees what a model has.
func TestSyntheticSuffixes(t *testing.T) {
	for _, random := range []bool{false, true} {
		t.Run(fmt.Sprintf("random=%v", random), func(t *testing.T) {
			ctx := context.Background()
			s := &SyntheticKey{Join: []string{"/day"}, Suffixes: 16, SuffixOf: "/id"}
			if random {
				s.SuffixOf = ""
			}
			db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{Synthetic: s, MinPartitions: 2, Index: IndexPolicy{Include: []string{"/n/?"}}})
			model := make(map[string]Meta)
			used := make(map[PartitionKey]bool)
			for i := range 300 {
				id := fmt.Sprintf("r%03d", i)
				meta, err := c.Create(ctx, reading(id, []string{"mon", "tue"}[i%2], i/10), nil)
				must(t, err)
				if i%2 == 0 {
					model[id] = meta
					used[meta.Key] = true
				}
				if i == 150 {
					must(t, db.Flush(ctx))
				}
			}
			keys, err := c.BaseKeys(StringKey("mon"))
			must(t, err)
			if len(keys) != 16 || len(used) < 8 {
				t.Fatalf("%d keys, %d used", len(keys), len(used))
			}
			for key := range used {
				if !slices.Contains(keys, key) {
					t.Errorf("key %s is none of the base value", key)
				}
			}
			for id, meta := range model {
				it, err := c.Read(ctx, meta.Key, id)
				if err != nil || it.ETag != meta.ETag {
					t.Fatalf("%s: %v", id, err)
				}
				if !random {
					if key, err := c.DerivedKey(StringKey("mon"), StringKey(id)); err != nil || key != meta.Key {
						t.Fatalf("%s: key %s, %v, want %s", id, key, err, meta.Key)
					}
				}
			}
			base := OfBase(StringKey("mon"))
			split := func() {
				for _, p := range c.Partitions() {
					if job, err := c.Split(ctx, p.ID, nil); err == nil {
						_ = job.Wait(ctx) // it may refuse
					}
				}
			}
			for name, q := range map[string]Query{
				"by key":  {},
				"filter":  {Where: Range("/n", Incl(0), Unbounded()), Fields: []QueryField{{Path: "/id"}}},
				"ordered": {OrderBy: []QueryOrder{{Path: "/n", Desc: true}}},
			} {
				for _, scope := range []Scope{base, AllPartitions()} {
					if scope != base {
						q.Where = And(q.Where, Eq("/day", "mon"))
					}
					var ids, paged []string
					for it, err := range c.Query(ctx, scope, q).All() {
						must(t, err)
						ids = append(ids, it.ID)
						if model[it.ID].Key != it.Key {
							t.Errorf("%s: %s has key %s", name, it.ID, it.Key)
						}
					}
					if len(ids) != len(model) {
						t.Fatalf("%s: %d results, want %d", name, len(ids), len(model))
					}
					if name == "by key" && !slices.IsSortedFunc(ids, func(a, b string) int { return model[a].Key.Compare(model[b].Key) }) {
						t.Errorf("%s: not in order of places", name)
					}
					for page, next := 0, ""; page == 0 || next != ""; page++ {
						q.Limit, q.Continue = 7, next
						r := c.Query(ctx, scope, q)
						for it, err := range r.All() {
							must(t, err)
							paged = append(paged, it.ID)
						}
						if next = r.Continue(); page == 3 {
							split()
						}
					}
					if !slices.Equal(ids, paged) {
						t.Errorf("%s: pages give %v\nwant %v", name, paged, ids)
					}
					q.Limit, q.Continue = 0, ""
				}
			}
			if n, err := c.Count(ctx, base, Range("/n", Unbounded(), Excl(10))); err != nil || n != 50 {
				t.Errorf("count %d, %v", n, err)
			}
			if p, err := c.Explain(ctx, AllPartitions(), Query{Where: Eq("/day", "mon")}); err != nil || p.Scope != `base "mon"` {
				t.Errorf("scope %s, %v", p.Scope, err)
			}
			p, err := c.Explain(ctx, base, Query{Where: Eq("/id", "r002")})
			if want := `base "mon"`; random && p.Scope != want || !random && !strings.HasPrefix(p.Scope, `partition "mon|`) || err != nil {
				t.Errorf("scope %s, %v", p.Scope, err)
			}
			if pinned := db.env.Pins.Live(); len(pinned) > 0 {
				t.Errorf("sequences are pinned: %v", pinned)
			}
		})
	}
}

// TestSyntheticRandom: what cannot know the suffix is refused, the rest is not.
func TestSyntheticRandom(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{Synthetic: &SyntheticKey{Join: []string{"/day"}, Suffixes: 4}})
	meta, err := c.Create(ctx, reading("a", "mon", 1), nil)
	must(t, err)
	key, other := meta.Key, StringKey("tue|1")
	var docs iter.Seq2[[]byte, error] = func(yield func([]byte, error) bool) { yield(reading("b", "mon", 1), nil) }
	for name, err := range map[string]error{
		"upsert":     second(c.Upsert(ctx, reading("a", "mon", 2), nil)),
		"keyed":      second(c.Upsert(ctx, reading("a", "mon", 2), &WriteOptions{Key: key})),
		"replace":    second(c.Replace(ctx, reading("a", "mon", 2), nil)),
		"load":       second(c.Load(ctx, docs, nil)),
		"typed":      second(Typed[map[string]any](c, nil).Upsert(ctx, map[string]any{"id": "b", "day": "mon"}, nil)),
		"batch":      c.NewBatch(key).Upsert(reading("a", "mon", 2), nil),
		"update":     c.Update(ctx, key, func(tx *Tx) error { return tx.Upsert(reading("a", "mon", 2), nil) }),
		"KeyOf":      second(c.KeyOf(reading("a", "mon", 2))),
		"DerivedKey": second(c.DerivedKey(StringKey("mon"))),
	} {
		if !errors.Is(err, ErrRandomSuffix) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"replace": second(c.Replace(ctx, reading("a", "mon", 2), &WriteOptions{Key: other})),
		"create":  second(c.Create(ctx, reading("b", "mon", 2), &WriteOptions{Key: StringKey("mon|5")})),
		"patch":   second(c.Patch(ctx, key, "a", new(Patch).Set("/day", "tue"), nil)),
		"batch":   c.NewBatch(other).Create(reading("a", "mon", 2), nil),
	} {
		if !errors.Is(err, ErrKeyMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	replaced, err := c.Replace(ctx, reading("a", "mon", 2), &WriteOptions{Key: key, IfMatch: meta.ETag})
	if err != nil || replaced.Key != key {
		t.Fatalf("%+v, %v", replaced, err)
	}
	_, err = c.Patch(ctx, key, "a", new(Patch).Increment("/n", 1), nil)
	must(t, err)
	must(t, c.Update(ctx, key, func(tx *Tx) error { return tx.Create(reading("b", "mon", 2), nil) }))
	if _, err := c.Create(ctx, reading("b", "mon", 2), &WriteOptions{Key: key}); !errors.Is(err, ErrExists) {
		t.Errorf("Create where one is: %v", err)
	}
	it, err := c.Read(ctx, key, "a")
	if err != nil || string(it.Body) != string(reading("a", "mon", 3)) {
		t.Errorf("%s, %v", it.Body, err)
	}
	must(t, c.Delete(ctx, key, "a", nil))
}

// TestWriteOptionsKey: in an ordinary container the key is compared.
func TestWriteOptionsKey(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	if _, err := c.Upsert(ctx, doc("x", "a", 1), &WriteOptions{Key: StringKey("b")}); !errors.Is(err, ErrKeyMismatch) {
		t.Error(err)
	}
	if _, err := c.Upsert(ctx, doc("x", "a", 1), &WriteOptions{Key: StringKey("a")}); err != nil {
		t.Error(err)
	}
	if key, err := c.KeyOf(doc("x", "a", 1)); err != nil || key != StringKey("a") {
		t.Errorf("%s, %v", key, err)
	}
	if key, err := c.DerivedKey(StringKey("a")); err != nil || key != StringKey("a") {
		t.Errorf("%s, %v", key, err)
	}
	if _, err := c.BaseKeys(StringKey("a")); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if _, err := results(c.Query(ctx, OfBase(StringKey("a")), Query{})); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestSyntheticRefused(t *testing.T) {
	ctx := context.Background()
	db, _ := openStore(t, testOptions(vfs.NewMem()))
	for name, def := range map[string]ContainerDef{
		"one path":      {Synthetic: &SyntheticKey{Join: []string{"/a"}}},
		"no path":       {Synthetic: &SyntheticKey{Suffixes: 4}},
		"four paths":    {Synthetic: &SyntheticKey{Join: []string{"/a", "/b", "/c", "/d"}}},
		"with suffix":   {Synthetic: &SyntheticKey{Join: []string{"/a", "/b", "/c"}, Suffixes: 2, SuffixOf: "/d"}},
		"one suffix":    {Synthetic: &SyntheticKey{Join: []string{"/a"}, Suffixes: 1}},
		"negative":      {Synthetic: &SyntheticKey{Join: []string{"/a"}, Suffixes: -1}},
		"many suffixes": {Synthetic: &SyntheticKey{Join: []string{"/a"}, Suffixes: 1001}},
		"suffix of":     {Synthetic: &SyntheticKey{Join: []string{"/a", "/b"}, SuffixOf: "/c"}},
		"twice":         {Synthetic: &SyntheticKey{Join: []string{"/a"}, Suffixes: 2, SuffixOf: "/a"}},
		"both":          {PartitionKey: []string{"/x"}, Synthetic: &SyntheticKey{Join: []string{"/a", "/b"}}},
		"opaque":        {Kind: Opaque, Synthetic: &SyntheticKey{Join: []string{"/a", "/b"}}},
	} {
		if _, err := db.CreateContainer(ctx, "c", def); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkUpsertSynthetic(b *testing.B) {
	ctx := context.Background()
	db, err := Open(ctx, "store", testOptions(vfs.NewMem()))
	must(b, err)
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{Synthetic: &SyntheticKey{Join: []string{"/day"}, Suffixes: 64, SuffixOf: "/id"}})
	must(b, err)
	r := new(request)
	doc := reading("order-1", "2024-05-01", 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.scan(r, doc, PartitionKey{}); err != nil {
			b.Fatal(err)
		}
	}
}
