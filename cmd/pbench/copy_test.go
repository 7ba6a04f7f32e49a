package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// TestCopy gives a container another partition key, in several runs.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	load := func(lines string, more ...string) {
		t.Helper()
		name := filepath.Join(dir, "in.ndjson")
		if err := os.WriteFile(name, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		newEngineSession(t).do(t, cli.ExitOK, append([]string{"load", "--db", db, "--data", name}, more...)...)
	}
	load(`{"id":"1","a":"x","b":"p"}`+"\n"+`{"id":"2","a":"y","b":"p"}`+"\n"+`{"id":"3","a":"y"}`, "--partition-key", "/a", "--partitions", "3")
	s := newEngineSession(t)
	copied := []string{"copy", "--db", db, "--to", "by-b", "--partition-key", "/b"}
	s.do(t, cli.ExitUsage, "copy", "--db", db, "--to", "docs", "--partition-key", "/b")
	wants(t, s.errOut.String(), "the store has no container but docs, which --to names")
	ended, end := context.WithCancel(t.Context())
	end()
	s.doContext(t, ended, cli.ExitInterrupted, copied...)
	s.do(t, cli.ExitOK, append(copied, "--no-finish")...)
	wants(t, s.out.String(), "copied   3 documents of docs to by-b", "docs takes writes as before")
	load(`{"id":"2","a":"y","b":"q"}`+"\n"+`{"id":"4","a":"z","b":"p"}`, "--container", "docs")
	s.do(t, cli.ExitUsage, "copy", "--db", db, "--to", "other", "--partition-key", "b")
	s.do(t, harness.ExitFailed, "copy", "--db", db, "--container", "none", "--to", "other", "--partition-key", "/b")
	file := filepath.Join(dir, "copy.json")
	s.do(t, cli.ExitOK, append(copied, "--drop", "--json", file)...)
	wants(t, s.out.String(), "copied   2 documents", "1 removed there", "by-b takes writes, docs is dropped")
	var rep copyReport
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &rep)
	}
	if rep.Seconds = 0; err != nil || rep != (copyReport{V: 1, Workload: "copy", Container: "docs", To: "by-b", Documents: 2, Removed: 1, Finished: true, Dropped: true}) {
		t.Errorf("%v, %s", err, text)
	}

	store, err := engine.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c, err := store.Container("by-b")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Partitions()) != 3 {
		t.Errorf("%d partitions", len(c.Partitions()))
	}
	found := make(map[string]string)
	for it, err := range c.ScanAll(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		found[it.ID] = it.Key.String()
	}
	if len(found) != 4 || found["1"] != `"p"` || found["2"] != `"q"` || found["4"] != `"p"` {
		t.Errorf("%v", found)
	}
	if _, err := store.Container("docs"); err == nil {
		t.Error("the source is there still")
	}
}

// TestCopyAfterKilledRun: a copy has the throughput that the source had before a run that was killed.
func TestCopyAfterKilledRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "20", "--generator", "small", "--durability", "buffered")
	within := func(do func(db *engine.DB) error) {
		t.Helper()
		db, err := engine.Open(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err = errors.Join(do(db), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	within(func(db *engine.DB) error {
		m := harness.RunMark{V: harness.RunMarkVersion, Container: "docs", Before: 5000, During: 400}
		return m.Begin(t.Context(), dir, harness.Opened(db))
	})
	s.do(t, cli.ExitOK, "copy", "--db", dir, "--to", "copied", "--partition-key", "/id")
	wants(t, s.errOut.String(), `killed: container "docs" has its throughput from before again`)
	within(func(db *engine.DB) error {
		c, err := db.Container("copied")
		if err == nil && c.Def().Throughput != 5000 {
			t.Errorf("the copy has %v RU/s", c.Def().Throughput)
		}
		return err
	})
}

// TestCopyKeyLimits: limits of single logical partitions go over with an equal key, and are
// not lost in silence with another.
func TestCopyKeyLimits(t *testing.T) {
	dir := t.TempDir()
	db, data := filepath.Join(dir, "db"), filepath.Join(dir, "in.ndjson")
	if err := os.WriteFile(data, []byte(`{"id":"1","a":"acme","b":"p"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	newEngineSession(t).do(t, cli.ExitOK, "load", "--db", db, "--data", data, "--container", "docs", "--partition-key", "/a")
	inStore := func(fn func(store *engine.DB)) {
		t.Helper()
		store, err := engine.Open(t.Context(), db, nil)
		if err != nil {
			t.Fatal(err)
		}
		fn(store)
		if err = store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	limits := func(name string) (found map[engine.PartitionKey]engine.KeyLimits) {
		t.Helper()
		inStore(func(store *engine.DB) {
			c, err := store.Container(name)
			if err != nil {
				t.Fatal(err)
			}
			found = maps.Collect(c.LimitedKeys())
		})
		return found
	}
	inStore(func(store *engine.DB) {
		c, err := store.Container("docs")
		if err == nil {
			err = c.SetDefaultKeyLimits(t.Context(), engine.KeyLimits{Throughput: 50})
		}
		if err == nil {
			err = c.SetKeyLimits(t.Context(), engine.StringKey("acme"), engine.KeyLimits{Throughput: 100, Bytes: 1 << 20})
		}
		if err == nil {
			err = c.SetKeyLimits(t.Context(), engine.StringKey("free"), engine.KeyLimits{Throughput: -1})
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	want := limits("docs")
	s := newEngineSession(t)
	byB := []string{"copy", "--db", db, "--container", "docs", "--to", "by-b", "--partition-key", "/b"}
	s.do(t, cli.ExitUsage, append(byB, "--drop")...)
	wants(t, s.errOut.String(), "2 logical partitions have limits of their own", "--no-key-limits")
	s.do(t, cli.ExitOK, append(byB, "--no-finish")...)

	for to, path := range map[string]string{"same": "/a", "quoted": `/"a"`} {
		s.do(t, cli.ExitOK, "copy", "--db", db, "--container", "docs", "--to", to, "--partition-key", path, "--no-finish")
		if got := limits(to); !maps.Equal(got, want) {
			t.Errorf("%s: a copy with the same key has the limits %v, want %v", path, got, want)
		}
	}
	s.do(t, cli.ExitOK, append(byB, "--no-key-limits", "--drop")...)
	if got := limits("by-b"); len(got) != 0 {
		t.Errorf("a copy with another key has the limits %v", got)
	}
}

// TestCopyLargeKeys: logical partitions are copied that are larger than those may be that have no
// limit of their own.
func TestCopyLargeKeys(t *testing.T) {
	db, ctx := filepath.Join(t.TempDir(), "db"), t.Context()
	store, err := engine.Open(ctx, db, &engine.Options{Durability: engine.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	def := engine.ContainerDef{PartitionKey: []string{"/k"}, Limits: engine.ContainerLimits{LogicalPartitionBytes: 100}}
	c, err := store.CreateContainer(ctx, "docs", def)
	for i := 0; i < 40 && err == nil; i++ {
		key := fmt.Sprint("tenant ", i)
		if err = c.SetKeyLimits(ctx, engine.StringKey(key), engine.KeyLimits{Bytes: 1 << 20}); err == nil {
			_, err = c.Upsert(ctx, fmt.Appendf(nil, `{"id":"1","k":%q,"text":%q}`, key, strings.Repeat("x", 100)), nil)
		}
	}
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	s, args := newEngineSession(t), []string{"copy", "--db", db, "--to", "same", "--partition-key", "/k"}
	s.do(t, cli.ExitOK, args...)
	s.do(t, harness.ExitFailed, append(args, "--drop")...) // as after a crash before the drop
	wants(t, s.errOut.String(), `container "docs": container was copied to another one, which takes its writes; pinspect drop removes this one`)
}
