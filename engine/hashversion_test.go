package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// version1Keys returns partition keys of one level, with their JSON members.
func version1Keys() (keys []PartitionKey, members []string) {
	long := strings.Repeat("x", 100)
	for _, text := range []string{`"redmond"`, `""`, `"k1"`, `"k2"`, `"k3"`, `5`, `-0.5`, `true`, `false`, `null`, `undefined`, `"` + long + `a"`, `"` + long + `b"`} {
		key, err := ParseKey(text)
		if err != nil {
			panic(err)
		}
		member := `,"k":` + text
		if text == "undefined" {
			member = ""
		}
		keys, members = append(keys, key), append(members, member)
	}
	return keys, members
}

// TestHashVersion1: the keys of a container of version 1 lie in its physical partitions as
// their published EPKs lie between the published boundaries, also after splits, a reopen, a
// copy and a restore. Every call takes a key of either version.
func TestHashVersion1(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	db, err := Open(ctx, "store", testOptions(mem))
	must(t, err)
	def := ContainerDef{PartitionKey: []string{"/k"}, HashVersion: 1, MinPartitions: 3, Index: IndexAll(), UniqueKeys: [][]string{{"/n"}}}
	c, err := db.CreateContainer(ctx, "old", def)
	must(t, err)
	keys, members := version1Keys()
	for i, m := range members {
		for n := range 3 {
			meta, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"i%d","n":%d%s}`, n, n, m), nil)
			must(t, err)
			if meta.Key.Version() != 1 || meta.Key.OfVersion(2) != keys[i] {
				t.Fatalf("%v was written under %v of version %d", keys[i], meta.Key, meta.Key.Version())
			}
		}
	}
	check := func(what string, c *Container) {
		t.Helper()
		if def := c.Def(); def.HashVersion != 1 {
			t.Errorf("%s: version %d", what, def.HashVersion)
		}
		parts := c.Partitions()
		for _, key := range keys {
			epk := partmap.HashV1(key.Encoded())
			for _, p := range parts {
				lo, err := partmap.ParseEPK(p.Min)
				must(t, err)
				hi, err := partmap.ParseEPK(p.Max)
				must(t, err)
				scope, err := OfRange(p.Min, p.Max)
				must(t, err)
				inside := bytes.Compare(epk, lo.Version1()) >= 0 && bytes.Compare(epk, hi.Version1()) < 0
				found := 0
				for it, err := range c.ScanAll(ctx, &ScanOptions{Within: scope}) {
					must(t, err)
					if it.Key.OfVersion(2) == key {
						found++
					}
				}
				if want := map[bool]int{true: 3}[inside]; found != want {
					t.Errorf("%s: %d items of %v, EPK %X, in partition %d from %X to %X, want %d", what, found, key, epk, p.ID, lo.Version1(), hi.Version1(), want)
				}
			}
			text, err := key.MarshalText()
			must(t, err)
			for _, k := range []PartitionKey{key, key.OfVersion(1)} {
				if it, err := c.Read(ctx, k, "i1"); err != nil || it.Key.OfVersion(2) != key {
					t.Errorf("%s: read of %v: %v, %v", what, k, it, err)
				}
				n := 0
				for _, err := range c.Scan(ctx, k, IDRange{}, nil) {
					must(t, err)
					n++
				}
				for _, err := range c.Query(ctx, OnePartition(k), Query{Where: Eq("/n", 2)}).All() {
					must(t, err)
					n++
				}
				if n != 4 {
					t.Errorf("%s: %d results of a scan and a query in %v, want 4", what, n, k)
				}
				if u, err := c.Usage(ctx, k, &UsageOptions{Exact: true}); err != nil || u.Versions != 3 {
					t.Errorf("%s: usage of %v: %+v, %v", what, k, u, err)
				}
				if err := c.View(ctx, k, func(tx *Tx) error { _, err := tx.Read("i0"); return err }); err != nil {
					t.Errorf("%s: view of %v: %v", what, k, err)
				}
			}
			if string(text) == "undefined" {
				continue
			}
			var v any
			must(t, json.Unmarshal(text, &v))
			n := 0
			for _, err := range c.Query(ctx, AllPartitions(), Query{Where: Eq("/k", v)}).All() {
				must(t, err)
				n++
			}
			if n != 3 {
				t.Errorf("%s: %d documents with the key %v by a query of all", what, n, key)
			}
		}
		for problem, err := range db.Verify(ctx) {
			t.Errorf("%s: verify: %v, %v", what, problem, err)
		}
	}
	check("made", c)
	if got := hexV1(t, c.Partitions()[1].Min); got != fmt.Sprintf("%X", partmapNumber(t, (1<<32-1)/3)) {
		t.Errorf("the first boundary of three is %s", got)
	}

	for range 3 {
		largest := slices.MaxFunc(c.Partitions(), func(a, b PartitionStats) int { return int(a.Items - b.Items) })
		job, err := c.Split(ctx, largest.ID, nil)
		must(t, err)
		must(t, job.Wait(ctx))
	}
	for _, p := range c.Partitions()[1:] {
		if at := hexV1(t, p.Min); len(at) > 14 {
			t.Errorf("a split was made at %s, which is not a hash alone", at)
		}
	}
	check("split", c)
	must(t, db.Flush(ctx))
	check("flushed", c)

	must(t, db.Close())
	db, err = Open(ctx, "store", testOptions(mem))
	must(t, err)
	c, err = db.Container("old")
	must(t, err)
	check("reopened", c)

	// Writes by key.
	must(t, c.Delete(ctx, keys[0], "i1", nil))
	if _, err := c.Read(ctx, keys[0].OfVersion(1), "i1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("read of a deleted item: %v", err)
	}
	doc := []byte(`{"id":"i1","n":1` + members[0] + `}`)
	b := c.NewBatch(keys[0])
	must(t, b.Create(doc, nil))
	_, err = c.Commit(ctx, b)
	must(t, err)
	_, err = c.Replace(ctx, doc, &WriteOptions{Key: keys[0]})
	must(t, err)
	if _, err = c.Replace(ctx, doc, &WriteOptions{Key: keys[1]}); !errors.Is(err, ErrKeyMismatch) {
		t.Errorf("a document under another key: %v", err)
	}
	must(t, c.SetKeyLimits(ctx, keys[2], KeyLimits{Bytes: 1}))
	if _, err = c.Upsert(ctx, []byte(`{"id":"more","n":9`+members[2]+`}`), nil); !errors.Is(err, ErrLogicalPartitionFull) {
		t.Errorf("past the limit of a logical partition: %v", err)
	}
	must(t, c.SetKeyLimits(ctx, keys[2], KeyLimits{}))
	check("written", c)

	// A copy of version 2, and one back.
	def.UniqueKeys = nil
	newer := def
	newer.HashVersion = 2
	for _, to := range []ContainerDef{newer, def} {
		name := map[int]string{1: "older", 2: "newer"}[to.HashVersion]
		job, err := copied(ctx, c, name, to)
		must(t, err)
		must(t, sameItems(c, job.Container()))
		if to.HashVersion == 2 {
			it, err := job.Container().Read(ctx, keys[1].OfVersion(1), "i0")
			if err != nil || it.Key != keys[1] {
				t.Errorf("the copy of version 2: %v, %v", it.Key, err)
			}
			job.Cancel()
			continue
		}
		done, err := job.Finish(ctx)
		must(t, err)
		check("copied", done)
	}

	var backup bytes.Buffer
	_, err = db.Backup(ctx, &backup, nil)
	must(t, err)
	must(t, db.Close())
	dir := filepath.Join(t.TempDir(), "restored")
	must(t, Restore(ctx, &backup, dir))
	db, err = Open(ctx, dir, nil)
	must(t, err)
	defer db.Close()
	c, err = db.Container("older")
	must(t, err)
	check("restored", c)
}

// hexV1 returns a boundary of a container of version 1 as the service prints it.
func hexV1(t *testing.T, text string) string {
	e, err := partmap.ParseEPK(text)
	must(t, err)
	return fmt.Sprintf("%X", e.Version1())
}

// partmapNumber returns the EPK of version 1 at a hash.
func partmapNumber(t *testing.T, hash uint64) []byte {
	even := partmap.EvenBoundariesV1(3)
	if hash != (1<<32-1)/3 {
		t.Fatal("another hash")
	}
	return even[0].Version1()
}

// TestHashVersionRefused: definitions that cannot be of version 1, and what has another one.
func TestHashVersionRefused(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, "store", testOptions(vfs.NewMem()))
	must(t, err)
	defer db.Close()
	for what, def := range map[string]ContainerDef{
		"two paths":  {PartitionKey: []string{"/a", "/b"}, HashVersion: 1},
		"replicated": {PartitionKey: []string{"/a"}, HashVersion: 1, Replicated: true},
		"synthetic":  {Synthetic: &SyntheticKey{Join: []string{"/a"}, Suffixes: 2}, HashVersion: 1},
		"3":          {PartitionKey: []string{"/a"}, HashVersion: 3},
		"-1":         {PartitionKey: []string{"/a"}, HashVersion: -1},
	} {
		if _, err := db.CreateContainer(ctx, "c", def); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, version := range map[string]int{"old": 1, "new": 2} {
		def := ContainerDef{PartitionKey: []string{"/k"}, HashVersion: version}
		_, err := db.CreateContainer(ctx, name, def)
		must(t, err)
		_, err = db.EnsureContainer(ctx, name, def)
		must(t, err)
		def.HashVersion = 3 - version
		_, err = db.EnsureContainer(ctx, name, def)
		if d, ok := errors.AsType[*DefinitionError](err); !ok || d.Field != "HashVersion" {
			t.Errorf("%s with version %d: %v", name, def.HashVersion, err)
		}
	}
	// A key of version 1 in a container of version 2 is that of the same value.
	c, err := db.Container("new")
	must(t, err)
	_, err = c.Upsert(ctx, []byte(`{"id":"a","k":"x"}`), nil)
	must(t, err)
	it, err := c.Read(ctx, StringKey("x").OfVersion(1), "a")
	must(t, err)
	if it.Key != StringKey("x") {
		t.Errorf("read under %v of version %d", it.Key, it.Key.Version())
	}
}

// TestHashVersion1Written: all calls that write take a key of either version in a container of
// version 1, and write the same items.
func TestHashVersion1Written(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	db, err := Open(ctx, "store", testOptions(mem))
	must(t, err)
	c, err := db.CreateContainer(ctx, "old", ContainerDef{PartitionKey: []string{"/k"}, HashVersion: 1, MinPartitions: 4, UniqueKeys: [][]string{{"/n"}}})
	must(t, err)
	register(t, c, "pass", PreTrigger, 0, func(context.Context, *TriggerCall) error { return nil })
	pass := &WriteOptions{PreTrigger: "pass"}
	keys, members := version1Keys()
	check := func(c *Container, key PartitionKey, want string) {
		t.Helper()
		var got []string
		for it, err := range c.Scan(ctx, key, IDRange{}, nil) {
			must(t, err)
			got = append(got, it.ID+" "+string(it.Body[len(`{"id":"a","n":`)]))
		}
		if strings.Join(got, ", ") != want {
			t.Fatalf("%v: %q, want %s", key, got, want)
		}
	}
	for i, key := range keys {
		doc := func(id string, n int) []byte { return fmt.Appendf(nil, `{"id":%q,"n":%d%s}`, id, n, members[i]) }
		for _, k := range []PartitionKey{key, key.OfVersion(1)} {
			named := &WriteOptions{Key: k}
			must(t, second(c.Upsert(ctx, doc("a", 1), nil)))
			must(t, c.Update(ctx, k, func(tx *Tx) error {
				return errors.Join(tx.Replace(doc("a", 2), named), tx.Create(doc("b", 1), nil), tx.Create(doc("d", 5), nil))
			}))
			check(c, key, "a 2, b 1, d 5")
			if err := c.Update(ctx, k, func(tx *Tx) error { return tx.Upsert(doc("c", 1), nil) }); !errors.Is(err, ErrUniqueKey) {
				t.Errorf("%v: a value that another item has: %v", k, err)
			}
			b := c.NewBatch(k)
			must(t, errors.Join(b.Upsert(doc("c", 3), named), b.Upsert(doc("a", 4), &WriteOptions{Key: key})))
			must(t, second(c.Commit(ctx, b)))
			must(t, second(c.Patch(ctx, k, "b", new(Patch).Increment("/n", 5), pass)))
			check(c, key, "a 4, b 6, c 3, d 5")
			must(t, second(c.Patch(ctx, k, "b", new(Patch).Increment("/n", 1), nil)))
			must(t, c.Delete(ctx, k, "c", pass))
			must(t, c.Delete(ctx, k, "d", nil))
			check(c, key, "a 4, b 7")
			if k == key {
				must(t, c.DeleteLogicalPartition(ctx, k, nil))
				check(c, key, "")
			}
		}
	}
	db, err = Open(ctx, "store", testOptions(mem.Kill()))
	must(t, err)
	defer db.Close()
	c, err = db.Container("old")
	must(t, err)
	must(t, db.Flush(ctx))
	for _, key := range keys {
		check(c, key, "a 4, b 7")
	}
	checkVerified(t, db)
}

// TestHashVersion1Listed: keys of version 1 that begin with the same 100 characters have one
// place. They are listed one by one, whichever runs and memtables hold them.
func TestHashVersion1Listed(t *testing.T) {
	ctx := t.Context()
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, HashVersion: 1, MinPartitions: 1})
	long := strings.Repeat("x", 101)
	want := make(map[PartitionKey]int64)
	rng := randtest.New(t)
	for round := range 12 {
		for range 1 + rng.IntN(4) {
			k := fmt.Sprint(long, rng.IntN(6))
			want[StringKey(k).OfVersion(1)]++
			must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":%q}`, rng.Uint32(), k), nil)))
		}
		if rng.IntN(2) == 0 {
			must(t, db.Flush(ctx))
		}
		got := make(map[PartitionKey]int64)
		for l, err := range c.LogicalPartitions(ctx) {
			must(t, err)
			key, err := l.Key()
			must(t, err)
			if got[key] != 0 {
				t.Errorf("round %d: %v is listed twice", round, key)
			}
			got[key] += l.Versions
		}
		if !maps.Equal(got, want) {
			t.Fatalf("round %d: listed %v, want %v", round, got, want)
		}
	}
}

// TestHashVersion1Exported: what is exported from a container of version 1 is not installed in
// one of version 2, which would not find the keys.
func TestHashVersion1Exported(t *testing.T) {
	ctx := t.Context()
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, HashVersion: 1, MinPartitions: 1})
	must(t, second(c.Upsert(ctx, []byte(`{"id":"a","k":"x"}`), nil)))
	var b bytes.Buffer
	must(t, second(c.ExportPartition(ctx, c.Partitions()[0].ID, &b)))
	to, err := db.CreateContainer(ctx, "to", ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	must(t, err)
	if _, err := to.InstallPartition(ctx, &b); !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), "version 1") {
		t.Errorf("installed: %v", err)
	}
}
