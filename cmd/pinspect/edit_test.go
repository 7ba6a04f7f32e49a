package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// TestEdit makes, fills, changes and empties a store by commands alone.
func TestEdit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "cities", "--partition-key", "/country")
	clean(t, "create", dir, "blobs", "--partition-key", "/k", "--opaque")
	clean(t, "put", dir, "cities", `{"id":"oslo","country":"NO","people":717710}`)
	clean(t, "put", dir, "cities", `{"id":"bergen","country":"NO"}`)
	clean(t, "put", dir, "cities", `{"id":"porto","country":"PT"}`)
	clean(t, "put", dir, "blobs", "--key", `"a"`, "--id", "x", "bytes")
	clean(t, "create", dir, "mails", "--partition-key", "/k", "--unique-key", "/mail")
	clean(t, "put", dir, "mails", `{"id":"1","k":"a","mail":"m"}`)
	if got := clean(t, "get", dir, "blobs", `"a"`, "x"); got != "bytes" {
		t.Errorf("the opaque document is %q", got)
	}

	for _, test := range []struct {
		status int
		args   []string
		says   string
	}{
		{2, []string{"put", dir, "cities", `{"id":"oslo","country":"NO"}`, "--create"}, "exists"},
		{2, []string{"put", dir, "cities", `{"id":1}`}, "/id"},
		{2, []string{"put", dir, "cities", `{}`, "--id", "x"}, "says its key"},
		{2, []string{"put", dir, "blobs", "bytes"}, "opaque"},
		{2, []string{"put", dir, "mails", `{"id":"2","k":"a","mail":"m"}`}, "/mail"},
		{2, []string{"put", dir, "none", `{}`}, "none"},
		{2, []string{"put", dir, "cities", ""}, "- to read standard input"},
		{2, []string{"put", dir, "blobs", "--key", `"a"`, "--id", "x", ""}, "- to read standard input"},
		{2, []string{"export", dir, "cities", ""}, "key "},
		{2, []string{"create", dir, "cities", "--partition-key", "/country"}, "exists"},
		{2, []string{"alter", dir, "cities"}, "nothing to change"},
		{2, []string{"drop", dir, "cities"}, "3 documents"},
		{2, []string{"delete", dir, "cities", `"NO"`}, "--all"},
		{exitFindings, []string{"delete", dir, "cities", `"NO"`, "rome"}, "rome"},
		{exitCannotOpen, []string{"put", t.TempDir(), "cities", "{}"}, "not a cleave store"},
	} {
		status, _, stderr := runInput(t, "", test.args...)
		if status != test.status || !strings.Contains(stderr, test.says) {
			t.Errorf("%q: status %d, want %d; %q lacks %q", test.args, status, test.status, stderr, test.says)
		}
	}

	clean(t, "alter", dir, "cities", "--throughput", "500", "--index")
	if got := clean(t, "query", dir, "cities", "SELECT c.id FROM c WHERE c.people > 5", "--explain"); !strings.Contains(got, "oslo") {
		t.Errorf("a query by the new index: %s", got)
	}
	if got := clean(t, "info", dir); !strings.Contains(got, "500 RU/s") || !strings.Contains(got, "are larger than the documents") {
		t.Errorf("the throughput, or what three documents take, is not shown: %s", got)
	}
	clean(t, "delete", dir, "cities", `"NO"`, "oslo")
	if got := clean(t, "delete", dir, "cities", `"NO"`, "--all"); !strings.Contains(got, "logical partition deleted") {
		t.Errorf("delete --all: %s", got)
	}
	clean(t, "drop", dir, "blobs", "--yes")
	if got := clean(t, "export", dir, "cities"); got != `{"id":"porto","country":"PT"}`+"\n" {
		t.Errorf("what is left: %s", got)
	}
	clean(t, "verify", dir)
}

// TestAlterRefused: a command that is refused for its indexes or its throughput changes neither.
func TestAlterRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "docs", "--partition-key", "/k", "--throughput", "500")
	clean(t, "create", dir, "blobs", "--partition-key", "/k", "--opaque", "--throughput", "500")
	for _, args := range [][]string{
		{"docs", "--throughput", "4000", "--index-path", "name"}, {"docs", "--throughput", "4000", "--composite", "/a"},
		{"docs", "--throughput=-1", "--index"}, {"blobs", "--throughput", "4000", "--index"},
	} {
		if r := pinspect(t, append([]string{"alter", dir}, args...)...); r.status != cli.ExitUsage {
			t.Errorf("%v: status %d: %s%s", args, r.status, r.stdout, r.stderr)
		}
		for _, c := range objects(t, clean(t, "info", dir, "--json"))[0]["containers"].([]any) {
			if got := c.(map[string]any); got["throughput_ru_per_s"] != 500.0 {
				t.Errorf("%v: container %v has now %v RU/s", args, got["name"], got["throughput_ru_per_s"])
			}
		}
		if got := clean(t, "index", dir); strings.Count(got, "not indexed") != 2 {
			t.Errorf("%v: %s", args, got)
		}
	}
}

// TestChangeThenNoRoom: a change that is made is told as made, also if the store has no room then to close in order.
func TestChangeThenNoRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "c", "--partition-key", "/k")
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	check(t, err)
	var newest int
	_, err = fmt.Sscanf(filepath.Base(manifests[len(manifests)-1]), "MANIFEST-%d", &newest)
	check(t, err)
	// The next manifest is that of the open. The one behind it, that of the close, finds its name taken.
	check(t, os.MkdirAll(filepath.Join(dir, fmt.Sprintf("MANIFEST-%010d.tmp", newest+2), "full"), 0o700))
	r := pinspect(t, "put", dir, "c", `{"id":"new","k":2}`)
	if got := clean(t, "get", dir, "c", "2", "new"); got != `{"id":"new","k":2}`+"\n" {
		t.Errorf("the document is %s", got)
	}
	if r.status != exitCannotOpen || !strings.Contains(r.stderr, "the change is made, and") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestPutLines: a load from standard input names the line that it refuses, and what it has
// written.
func TestPutLines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "c", "--partition-key", "/k")
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, `{"id":"%d","k":%d}`+"\n", i, i%7)
	}
	status, stdout, stderr := runInput(t, lines.String(), "put", dir, "c", "-")
	if status != 0 || !strings.Contains(stdout, "100 documents") {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	status, _, stderr = runInput(t, `{"id":"a","k":1}`+"\n"+`{"id":2}`+"\n", "put", dir, "c")
	if status != 2 || !strings.Contains(stderr, "line 2, column 7") || !strings.Contains(stderr, "1 document written") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestPutCreate: --create refuses a document that is there, in a container of either kind.
func TestPutCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "docs", "--partition-key", "/k")
	clean(t, "create", dir, "blobs", "--partition-key", "/k", "--opaque")
	for _, args := range [][]string{{"put", dir, "docs", `{"id":"x","k":"a","n":%d}`}, {"put", dir, "blobs", "bytes %d", "--key", `"a"`, "--id", "x"}} {
		put := func(n int) (status int, stderr string) {
			list := append(slices.Clone(args), "--create")
			list[3] = fmt.Sprintf(args[3], n)
			status, _, stderr = runInput(t, "", list...)
			return status, stderr
		}
		if status, stderr := put(1); status != 0 {
			t.Fatal(stderr)
		}
		if status, stderr := put(2); status != cli.ExitUsage || !strings.Contains(stderr, "exists") {
			t.Errorf("%v: status %d: %s", args, status, stderr)
		}
		if got := clean(t, "get", dir, args[2], `"a"`, "x"); strings.TrimSpace(got) != fmt.Sprintf(args[3], 1) {
			t.Errorf("%v: it is now %s", args, got)
		}
	}
}

// TestPutFailures: wrong input is wrong usage, an input that cannot be read is not.
func TestPutFailures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "c", "--partition-key", "/k")
	const first = `{"id":"1","k":"a"}` + "\n"
	for name, test := range map[string]struct {
		input io.Reader
		want  int
	}{
		"no JSON":       {strings.NewReader(first + `{"id":`), cli.ExitUsage},
		"no id":         {strings.NewReader(first + `{"k":"a"}`), cli.ExitUsage},
		"long":          {strings.NewReader(first + strings.Repeat("x", 5<<20)), cli.ExitUsage},
		"read failed":   {io.MultiReader(strings.NewReader(first), iotest.ErrReader(syscall.EIO)), exitCannotOpen},
		"nothing wrong": {strings.NewReader(first), 0},
	} {
		var out, errs bytes.Buffer
		status := execute(t.Context(), []string{"put", dir, "c"}, &environment{stdin: test.input, stdout: &out, stderr: &errs})
		if status != test.want || test.want != 0 && (!strings.Contains(errs.String(), "1 document written, then: ") || !strings.Contains(errs.String(), "standard input: line ")) {
			t.Errorf("%s: status %d, want %d: %s", name, status, test.want, &errs)
		}
	}
}

// TestSpaceAndCompact: what is dead is counted, and a compaction gives it back.
func TestSpaceAndCompact(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "c", "--partition-key", "/k")
	for round := range 2 {
		var lines strings.Builder
		for i := range 2_000 {
			fmt.Fprintf(&lines, `{"id":"%d","k":%d,"round":%d,"text":"%064x"}`+"\n", i, i%7, round, i*i)
		}
		if status, _, stderr := runInput(t, lines.String(), "put", dir, "c"); status != 0 {
			t.Fatal(stderr)
		}
	}
	clean(t, "compact", dir)
	v := objects(t, clean(t, "space", dir, "--json"))[0]
	c := v["containers"].([]any)[0].(map[string]any)
	if c["versions"] != 2000.0 || c["dead_versions"] != 0.0 || v["reclaimable_bytes"] != 0.0 {
		t.Errorf("after a compaction: %v", v)
	}
	if text := clean(t, "space", dir); !strings.Contains(text, "Nothing is dead") {
		t.Errorf("space says %s", text)
	}
	clean(t, "delete", dir, "c", "3", "--all")
	v = objects(t, clean(t, "space", dir, "--json"))[0]
	before := v["disk_bytes"].(map[string]any)["segments"].(float64)
	clean(t, "compact", dir)
	v = objects(t, clean(t, "space", dir, "--json"))[0]
	if after := v["disk_bytes"].(map[string]any)["segments"].(float64); after >= before {
		t.Errorf("segments had %v bytes, have %v after a seventh was deleted", before, after)
	}
}

// TestSpaceOfSplit: after a split each half has the files of the whole. What is foreign to one
// of them is the other's, and no compaction gives it back.
func TestSpaceOfSplit(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(ctx, dir, &engine.Options{TrimBytesPerSecond: 1}) // no trim ends before it is closed
	check(t, err)
	c, err := db.CreateContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	for i := range 4_000 {
		_, err = c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"k%d","text":"%064x"}`, i, i, i*i*7919), &engine.WriteOptions{Durability: engine.Buffered})
		check(t, err)
	}
	check(t, db.Compact(ctx))
	job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
	check(t, err)
	check(t, job.Wait(ctx))
	check(t, db.Close())
	space := func() (foreign, reclaimable, segments float64) {
		v := objects(t, clean(t, "space", dir, "--json"))[0]
		foreign = v["containers"].([]any)[0].(map[string]any)["foreign_bytes"].(float64)
		return foreign, v["reclaimable_bytes"].(float64), v["disk_bytes"].(map[string]any)["segments"].(float64)
	}
	foreign, promised, before := space()
	if foreign < before/2 {
		t.Fatalf("%v of %v bytes are foreign", foreign, before)
	}
	clean(t, "compact", dir)
	foreign, left, after := space()
	if promised > before/20 || foreign != 0 || left != 0 || after < before*9/10 {
		t.Errorf("%v of %v bytes were to be given back; a compaction left %v of %v, %v foreign", promised, before, left, after, foreign)
	}
}

// TestDiff compares a store with itself after each kind of change.
func TestDiff(t *testing.T) {
	s := newSample(t)
	other := copyStore(t, s.dir)
	same := func(want string, args ...string) {
		t.Helper()
		status, stdout, stderr := runInput(t, "", append([]string{"diff", s.dir, other}, args...)...)
		if wantStatus := map[bool]int{true: 0, false: exitFindings}[want == "same"]; status != wantStatus {
			t.Fatalf("status %d, want %d: %s%s", status, wantStatus, stdout, stderr)
		}
		if want != "same" && !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	same("same")
	id, _, doc := s.city(601)
	clean(t, "put", other, "cities", strings.Replace(doc, "{", `{"changed":true,`, 1))
	same(id + ": differs")
	clean(t, "put", s.dir, "cities", strings.Replace(doc, "{", `{"changed":true,`, 1))
	same("same")
	clean(t, "put", other, "cities", `{"id":"new","country":"C9"}`)
	same("new: only in B")
	same("1 only in B", "--container", "cities", "--max", "0")
	same("same", "--container", "blobs")
	clean(t, "delete", other, "cities", `"C9"`, "new")
	clean(t, "put", s.dir, "cities", `{"id":"old","country":"C9"}`)
	same("old: only in A")
	clean(t, "drop", other, "blobs", "--yes")
	same("blobs: only in A", "--container", "blobs")
	if status, _, stderr := runInput(t, "", "diff", s.dir, other, "--container", "none"); status != 2 {
		t.Errorf("status %d for a container that is not there: %s", status, stderr)
	}
}

// TestCreateNothing: a definition that is refused leaves no store.
func TestCreateNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for want, args := range map[string][]string{
		"nope":           {"c", "--partition-key", "nope"},
		"container name": {"a/b", "--partition-key", "/k"},
		"MinPartitions":  {"c", "--partition-key", "/k", "--partitions=-1"},
		"DefaultTTL":     {"c", "--partition-key", "/k", "--ttl", "1us"},
		"throughput":     {"c", "--partition-key", "/k", "--throughput", "0.5"},
		"name/?":         {"c", "--partition-key", "/k", "--index-path", "name/?"},
		"nokey":          {"c", "--partition-key", "/k", "--unique-key", "nokey"},
		"opaque":         {"c", "--partition-key", "/k", "--opaque", "--index"},
	} {
		r := pinspect(t, append([]string{"create", dir}, args...)...)
		if _, err := os.Stat(dir); r.status != cli.ExitUsage || !strings.Contains(r.stderr, want) || !os.IsNotExist(err) {
			t.Errorf("%q: status %d, %v: %s", args, r.status, err, r.stderr)
		}
	}
}

// runInput runs a command line with a standard input.
func runInput(t *testing.T, input string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = execute(t.Context(), args, &environment{stdin: strings.NewReader(input), stdout: &out, stderr: &errs})
	return status, out.String(), errs.String()
}

// TestDiffOfHashVersions: containers that place keys by different versions of the hash differ
// in that, and their documents are not compared: their orders have nothing in common.
func TestDiffOfHashVersions(t *testing.T) {
	ctx := t.Context()
	var dirs []string
	for version := range 3 { // 0 is 2
		dir := filepath.Join(t.TempDir(), "store")
		db, err := engine.Open(ctx, dir, nil)
		check(t, err)
		c, err := db.CreateContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}, HashVersion: version})
		check(t, err)
		for i := range 5 {
			_, err = c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"k%d"}`, i, i), nil)
			check(t, err)
		}
		check(t, db.Close())
		dirs = append(dirs, dir)
	}
	r := pinspect(t, "diff", dirs[1], dirs[2])
	if r.status != exitFindings || !strings.Contains(r.stdout, "c: differs: json by /k (hash version 1) in A, json by /k (hash version 2) in B\n") ||
		!strings.Contains(r.stdout, "0 documents compared: 0 only in A, 0 only in B") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	clean(t, "diff", dirs[0], dirs[2])
}

// TestDiffOfPaths: containers are compared whose keys have the same paths, however they are written.
func TestDiffOfPaths(t *testing.T) {
	var dirs []string
	for _, path := range []string{"/country", `/"country"`} {
		dir := filepath.Join(t.TempDir(), "store")
		clean(t, "create", dir, "cities", "--partition-key", path)
		for i := range 6 {
			clean(t, "put", dir, "cities", fmt.Sprintf(`{"id":"%d","country":"%c"}`, i, 'A'+i%3))
		}
		dirs = append(dirs, dir)
	}
	clean(t, append([]string{"diff"}, dirs...)...)
	if got := clean(t, "advise", dirs[1]); !strings.Contains(got, "\n/country ") || strings.Contains(got, "\n/\"country\" ") {
		t.Errorf("the key that the container has is shown twice:\n%s", got)
	}
}

// TestDiffOfDefinitions: containers differ that hold the same and are to do other things. How
// they are kept does not count.
func TestDiffOfDefinitions(t *testing.T) {
	ctx := t.Context()
	made := func(def engine.ContainerDef, limits engine.KeyLimits) string {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "store")
		db, err := engine.Open(ctx, dir, nil)
		check(t, err)
		def.PartitionKey = []string{"/k"}
		c, err := db.CreateContainer(ctx, "c", def)
		check(t, err)
		check(t, c.SetKeyLimits(ctx, engine.StringKey("acme"), limits))
		check(t, db.Close())
		return dir
	}
	plain := made(engine.ContainerDef{UniqueKeys: [][]string{{"/n"}}}, engine.KeyLimits{})
	for _, tc := range []struct {
		def    engine.ContainerDef
		limits engine.KeyLimits
		want   string // "": the same
	}{
		{def: engine.ContainerDef{UniqueKeys: [][]string{{`/"n"`}}, Compression: engine.NoCompression, MinPartitions: 3, Index: engine.IndexAll()}},
		{engine.ContainerDef{DefaultTTL: time.Hour, MutableTTL: true, UniqueKeys: [][]string{{"/mail", "/n"}, {"/n"}}, Throughput: 500}, engine.KeyLimits{},
			"DefaultTTL 0s in A, 1h0m0s in B; MutableTTL false in A, true in B; Throughput 0 in A, 500 in B; UniqueKeys /n in A, /mail,/n and /n in B"},
		{engine.ContainerDef{DefaultTTL: engine.NoExpiry, Limits: engine.ContainerLimits{ItemBytes: 1 << 10}}, engine.KeyLimits{Bytes: 1 << 20},
			"DefaultTTL 0s in A, NoExpiry in B; Limits.ItemBytes 2097152 in A, 1024 in B; UniqueKeys /n in A, none in B; limits of single logical partitions"},
	} {
		r := pinspect(t, "diff", plain, made(tc.def, tc.limits))
		want, status := "", 0
		if tc.want != "" {
			want, status = "c: differs: "+tc.want+"\n", exitFindings
		}
		if want += "0 documents compared: 0 only in A, 0 only in B, 0 differ\n"; r.status != status || r.stdout != want {
			t.Errorf("status %d, want %d:\n%s%swant\n%s", r.status, status, r.stdout, r.stderr, want)
		}
	}
}
