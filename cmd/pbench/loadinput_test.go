package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// TestLoadLargeDocuments: documents up to the engine's limit come in with the
// blanks around them, and a line over that of NDJSON is refused like a document.
func TestLoadLargeDocuments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := newEngineSession(t)
	large := fmt.Sprintf(` {"id":"large","k":"a","s":"%s"} `, strings.Repeat("x", 3<<20-40))
	long := `{"id":"long","k":"a","s":"` + strings.Repeat("x", workload.DefaultLineBytes) + `"}`
	input := large + "\n" + long + "\n" + `{"id":"small","k":"a"}`
	load := func(more ...string) []string {
		s.Stdin = strings.NewReader(input)
		return append([]string{"load", "--db", dir, "--data", "-", "--partition-key", "/k", "--item-limit", "3MiB"}, more...)
	}
	s.do(t, harness.ExitFailed, load()...)
	wants(t, s.errOut.String(), "1 document was written", "--skip 2", "--max-errors", "standard input: line 2: line too long")
	s.do(t, cli.ExitOK, load("--skip", "2")...)
	wants(t, s.out.String(), "loaded   1 document,")
	s.do(t, cli.ExitOK, load("--max-errors", "1")...)
	wants(t, s.out.String(), "loaded   2 documents,", "refused  1 document\n")
	if n := strings.Count(s.errOut.String(), "line 2"); n != 1 {
		t.Errorf("the line is named %d times: %s", n, &s.errOut)
	}
	db, err := engine.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.Container("docs")
	if err != nil {
		t.Fatal(err)
	}
	if it, err := c.Read(t.Context(), partmap.String("a"), "large"); err != nil || string(it.Body) != large {
		t.Errorf("%d bytes, want %d: %v", len(it.Body), len(large), err)
	}
}

// TestLoadContainer: load says what a new container is, and refuses to load into
// one that is something else.
func TestLoadContainer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := newEngineSession(t)
	load := func(more ...string) []string {
		s.Stdin = strings.NewReader(`{"id":"1","k":"a","mail":"m"}`)
		return append([]string{"load", "--db", dir, "--data", "-", "--partition-key", "/k"}, more...)
	}
	s.do(t, cli.ExitUsage, load("--ttl", "soon")...)
	s.do(t, cli.ExitUsage, load("--item-limit", "4MiB")...)
	s.do(t, cli.ExitUsage, load("--batch-limit", "5MiB")...)
	s.do(t, cli.ExitUsage, load("--unique-key", "mail")...)
	wants(t, s.errOut.String(), `--unique-key: unique key: path "mail": each step must begin with a slash`)
	flags := []string{"--ttl", "24h", "--unique-key", "/mail,/phone", "--unique-key", "/name", "--throughput", "4000",
		"--item-limit", "3MiB", "--logical-partition-limit", "1GiB", "--batch-limit", "4MiB"}
	s.do(t, cli.ExitOK, load(flags...)...)
	s.do(t, cli.ExitOK, load(flags...)...)
	s.do(t, cli.ExitOK, load("--unique-key", `/"mail",/phone`, "--unique-key", `/"name"`)...) // the same paths
	s.Stdin = strings.NewReader(`{"id":"1","k":"a","mail":"m"}` + "\n" + `{"id":"2","k":"a","mail":"m"}` + "\n" + `{"id":"3","k":"a","mail":"n"}`)
	s.do(t, cli.ExitOK, "load", "--db", filepath.Join(t.TempDir(), "db"), "--data", "-", "--partition-key", "/k", "--unique-key", "/mail", "--max-errors", "1")
	wants(t, s.errOut.String(), "refused: standard input: line 2")
	for _, other := range [][]string{
		{"--ttl", "own"}, {"--unique-key", "/mail"}, {"--item-limit", "1MiB"}, {"--logical-partition-limit", "2GiB"}, {"--batch-limit", "1MiB"},
	} {
		s.do(t, cli.ExitUsage, load(other...)...)
		wants(t, s.errOut.String(), other[0]+" says")
	}
	db, err := engine.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.Container("docs")
	if err != nil {
		t.Fatal(err)
	}
	d := c.Def()
	if d.DefaultTTL != 24*time.Hour || d.Throughput != 4000 || len(d.UniqueKeys) != 2 || !slices.Equal(d.UniqueKeys[0], []string{"/mail", "/phone"}) ||
		d.Limits.ItemBytes != 3<<20 || d.Limits.LogicalPartitionBytes != 1<<30 || d.Limits.BatchBytes != 4<<20 {
		text, _ := json.Marshal(d)
		t.Errorf("%s", text)
	}
}

// TestLoadFull: a load that fills the disk says so once, and how to go on.
func TestLoadFull(t *testing.T) {
	dir := t.TempDir()
	s := newSession(t)
	load := func() []string {
		s.Stdin = strings.NewReader(`{"id":"1","k":"a"}` + "\n" + `{"id":"2","k":"a"}`)
		return []string{"load", "--db", dir, "--data", "-", "--partition-key", "/k"}
	}
	s.do(t, cli.ExitOK, load()...)
	s.store.containers["docs"].loadErr = fmt.Errorf("write log: %w", harness.ErrDiskFull)
	s.store.closeErr = fmt.Errorf("flush: %w", harness.ErrDiskFull)
	s.do(t, harness.ExitFull, load()...)
	wants(t, s.errOut.String(), "2 documents were written; to go on there: --skip 2", "make room first")
	if n := strings.Count(s.errOut.String(), harness.ErrDiskFull.Error()); n != 1 {
		t.Errorf("said %d times: %s", n, &s.errOut)
	}
}

// TestLoadKeys: a key that is legal and hardly meant is warned of.
func TestLoadKeys(t *testing.T) {
	s := newEngineSession(t)
	load := func(key, docs string) string {
		s.Stdin = strings.NewReader(docs)
		s.do(t, cli.ExitOK, "load", "--db", filepath.Join(t.TempDir(), "db"), "--data", "-", "--partition-key", key)
		return s.errOut.String()
	}
	wants(t, load("/tenant", `{"id":"1"}`+"\n"+`{"id":"2"}`), "warning: no document has /tenant, the partition key: all are in one logical partition")
	wants(t, load("/a,/b", `{"id":"1","a":1}`), "warning: no document has /b, a level of the partition key")
	wants(t, load("/n", `{"id":"1","n":9007199254740993}`), "warning: /n has whole numbers of 2^53 or more", "as strings")
	if text := load("/n", `{"id":"1"}`+"\n"+`{"id":"2","n":9007199254740991}`+"\n"+`{"id":"3","n":"9007199254740993"}`); strings.Contains(text, "warning") {
		t.Error(text)
	}
}

// TestInterruptedAtOnce: a command that is interrupted before it has begun says
// so with its status.
func TestInterruptedAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "100", "--generator", "small")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range []string{
		"", "load --docs 10 --generator small --db " + dir, "run --db " + dir, "sweep --slo read.p99<5ms --db " + dir,
		"copy --db " + dir + " --container docs --to other --partition-key /id",
	} {
		s.doContext(t, ctx, cli.ExitInterrupted, strings.Fields(args)...)
		if s.errOut.String() != "pbench: interrupted\n" && !strings.Contains(s.errOut.String(), "interrupted") {
			t.Errorf("pbench %s: %s", args, &s.errOut)
		}
	}
}

// TestLoadNoName: where the file to load is a variable of a shell that is not set, generated documents are not loaded in its place.
func TestLoadNoName(t *testing.T) {
	s := newEngineSession(t)
	db := filepath.Join(t.TempDir(), "db")
	s.do(t, harness.ExitFailed, "load", "--db", db, "--data", "", "--docs", "10")
	if _, err := os.Stat(db); err == nil || s.out.Len() > 0 {
		t.Errorf("loaded:\n%s", &s.out)
	}
}

// TestLoadSecondHalf: documents that a load has passed over, and no load before it has written, are not looked for.
func TestLoadSecondHalf(t *testing.T) {
	s := newEngineSession(t)
	db := filepath.Join(t.TempDir(), "db")
	load := []string{"load", "--db", db, "--generator", "small", "--durability", "buffered", "--docs"}
	run := []string{"run", "--db", db, "--workload", "read", "--closed", "--ops", "200", "--warmup", "0s", "--container"}
	s.do(t, cli.ExitOK, append(load, "100", "--skip", "50", "--container", "half")...)
	s.do(t, cli.ExitOK, append(run, "half")...)
	s.do(t, cli.ExitOK, append(load, "50", "--container", "whole")...)
	s.do(t, cli.ExitOK, append(load, "100", "--skip", "50", "--container", "whole")...)
	s.do(t, cli.ExitOK, append(run, "whole")...)
	if c, err := harness.ReadCatalog(db); err != nil || c.Containers["whole"].Documents != 100 || len(c.Containers) != 1 {
		t.Errorf("%v, %+v", err, c)
	}
}
