package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/workload"
)

// newEngineSession is a session with the engine under it.
func newEngineSession(t *testing.T) *session {
	t.Helper()
	s := newSession(t)
	s.Environment.Open = harness.OpenStore
	return s
}

func TestEndToEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "500", "--logical-partitions", "20", "--skew", "1", "--index", "--batch-bytes", "64KiB", "--durability", "buffered")
	wants(t, s.out.String(), "loaded   500 documents", "flush", "after close")

	for i, w := range workload.Workloads() {
		args := []string{"run", "--db", dir, "--workload", w.Name, "--ops", "300", "--warmup", "0s", "--workers", "2", "--durability", "buffered", "--json", "-"}
		if i > 0 && (testing.Short() || i%6 > 0) {
			args = append(args, "--closed") // does not look for the maximum first, which takes seconds
		}
		s.do(t, cli.ExitOK, args...)
		var r report
		if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v in\n%s", w.Name, err, &s.out)
		}
		if r.All.Ops != 300 || r.All.Errors != 0 || r.All.P50Micros <= 0 || r.All.MaxMicros < r.All.P999 {
			t.Errorf("%s: %+v", w.Name, r.All)
		}
		if r.Engine.DiskBytes == 0 || (r.Engine.Writes > 0) != w.Mix.Writes() || (r.Engine.LogBytes > 0) != w.Mix.Writes() {
			t.Errorf("%s: %+v", w.Name, r.Engine)
		}
	}
	s.do(t, cli.ExitOK, "run", "--db", dir, "--ops", "200", "--warmup", "0s", "--positioned", "--profile", "heap")
	wants(t, s.out.String(), "ALL ", "heap profile")
}

// TestDroppedContainer: what is known of the documents of a container does not hold for another one that has got its name.
func TestDroppedContainer(t *testing.T) {
	dir, ctx := filepath.Join(t.TempDir(), "store"), t.Context()
	s := newEngineSession(t)
	load := []string{"load", "--db", dir, "--generator", "small", "--durability", "buffered", "--docs"}
	s.do(t, cli.ExitOK, append(load, "300")...)
	within := func(do func(db *engine.DB) error) {
		t.Helper()
		db, err := engine.Open(ctx, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err = errors.Join(do(db), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	within(func(db *engine.DB) error { return db.DropContainer(ctx, "docs") })
	s.do(t, cli.ExitOK, append(load, "200")...)
	if known, err := harness.ReadCatalog(dir); err != nil || known.Containers["docs"].Documents != 200 {
		t.Errorf("loaded again: %+v, %v", known, err)
	}
	within(func(db *engine.DB) error {
		err := db.DropContainer(ctx, "docs")
		c, createErr := db.CreateContainer(ctx, "docs", engine.ContainerDef{PartitionKey: []string{"/own"}})
		for i := 0; i < 20 && createErr == nil; i++ {
			_, createErr = c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","own":"a"}`, i), nil)
		}
		return errors.Join(err, createErr)
	})
	s.do(t, cli.ExitOK, "run", "--db", dir, "--workload", "ycsb-a", "--closed", "--ops", "50", "--warmup", "0s", "--durability", "buffered")
	within(func(db *engine.DB) error {
		c, err := db.Container("docs")
		if err != nil {
			return err
		}
		n, err := c.Count(ctx, engine.AllPartitions(), engine.Filter{})
		if n != 20 {
			t.Errorf("%d documents, 20 were there before the run", n)
		}
		return err
	})
}

// TestSeriesWithoutWarmUp: the series has only what was written after the warm-up.
func TestSeriesWithoutWarmUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "500", "--workload", "put", "--closed", "--ops", "200", "--warmup", "100ms", "--durability", "buffered", "--out", dir, "--json", "-")
	var r report
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, seriesFile))
	if err != nil {
		t.Fatal(err)
	}
	var written int64
	for line := range strings.Lines(string(text)) {
		var one second
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		written += one.WrittenBytes
	}
	if written == 0 || written > r.Engine.WrittenBytes {
		t.Errorf("the series has %d bytes written, the run %d", written, r.Engine.WrittenBytes)
	}
}

// TestEndToEndThroughput counts calls that a container does not admit apart.
func TestEndToEndThroughput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "500", "--partitions", "2", "--no-burst", "--durability", "buffered")
	s.do(t, cli.ExitOK, "run", "--db", dir, "--workload", "read", "--closed", "--throughput", "400", "--ops", "5000", "--warmup", "0s", "--json", "-")
	var r report
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	u := r.Engine.Throughput
	if u == nil || u.Provisioned != 400 || len(u.Partitions) != 2 || u.Throttled == 0 || r.All.Ops+u.Throttled != 5000 || r.All.Errors != 0 {
		t.Errorf("%+v of %+v", u, r.All)
	}
	s.do(t, cli.ExitOK, "run", "--db", dir, "--workload", "a", "--closed", "--ops", "100", "--warmup", "0s")
	if strings.Contains(s.out.String(), "RU/s") {
		t.Errorf("the throughput has stayed:\n%s", &s.out)
	}
	s.do(t, cli.ExitOK, "run", "--db", dir, "--workload", "a", "--closed", "--throughput", "1k", "--ops", "100", "--warmup", "0s")
	wants(t, s.out.String(), "1,000 RU/s provisioned", "calls throttled; a partition consumed")
	s.do(t, cli.ExitUsage, "run", "--db", dir, "--workload", "ycsb-d", "--closed", "--throughput", "1k")
	s.do(t, cli.ExitUsage, "run", "--db", dir, "--throughput", "1k")
}

// TestSweepThroughput: a container that does not admit all calls is not swept.
func TestSweepThroughput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "500", "--throughput", "4000", "--durability", "buffered")
	s.do(t, cli.ExitUsage, "sweep", "--db", dir, "--workload", "read", "--slo", "read.p99<1s", "--duration", "10ms")
	wants(t, s.errOut.String(), "4,000 RU/s provisioned")
}

// TestLimitsOfKeys: calls that limits of logical partitions refuse are told of, and are no part of a maximum.
func TestLimitsOfKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "100", "--generator", "small", "--logical-partitions", "1", "--durability", "buffered")
	db, err := engine.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Container("docs")
	if err == nil {
		err = c.SetDefaultKeyLimits(t.Context(), engine.KeyLimits{Throughput: 1, Bytes: 1 << 30})
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	run := []string{"run", "--db", dir, "--workload", "read", "--warmup", "0s"}
	s.do(t, cli.ExitOK, append(run, "--closed", "--ops", "5000")...)
	wants(t, s.out.String(), "calls throttled by limits of logical partitions")
	s.do(t, cli.ExitUsage, append(run, "--duration", "10ms")...)
	wants(t, s.errOut.String(), "there is no maximum to take a share of")
}

func TestEndToEndFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "in.ndjson")
	lines := []string{`{"id":"1","a":"x","b":1}`, `{"id":"2","a":"x"}`, `{"id":"3","a":null,"b":true}`, `{"id":"4","id":"5"}`, `{"id":"6"}`}
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "db")
	s := newEngineSession(t)
	s.do(t, harness.ExitFailed, "load", "--db", db, "--container", "c", "--data", name, "--partition-key", "/a,/b", "--compression", "small")
	wants(t, s.errOut.String(), name+": line 4, column 11: document: ", "3 documents were written", "--skip 4;")
	s.do(t, cli.ExitOK, "load", "--db", db, "--container", "c", "--data", name, "--skip", "4")
	wants(t, s.out.String(), "loaded   1 document,")
	s.do(t, cli.ExitOK, "run", "--db", db, "--ops", "100", "--warmup", "0s", "--workload", "f", "--durability", "buffered")
	wants(t, s.out.String(), "4 documents in 4 physical partitions", "rmw ")
	s.do(t, harness.ExitFailed, "run", "--db", db, "--container", "other")
	wants(t, s.errOut.String(), `container "other": no such container`)
	s.do(t, cli.ExitUsage, "load", "--db", db, "--container", "d", "--data", name, "--partition-key", "a")
	s.do(t, cli.ExitUsage, "load", "--db", db, "--container", "d", "--docs", "10", "--compression", "much")
	s.do(t, cli.ExitUsage, "load", "--db", db, "--container", "d", "--docs", "10", "--partitions", "100000")
}

func TestEndToEndErrors(t *testing.T) {
	dir := t.TempDir()
	s := newEngineSession(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.do(t, cli.ExitUsage, "load", "--db", file, "--docs", "10")
	wants(t, s.errOut.String(), file)
	s.do(t, harness.ExitFailed, "load", "--db", dir, "--docs", "10")
	wants(t, s.errOut.String(), dir, "not a cleave store")
	s.do(t, harness.ExitFailed, "run", "--db", dir)
	wants(t, s.errOut.String(), dir, "not a cleave store")

	db := filepath.Join(dir, "db")
	open, err := harness.OpenStore(t.Context(), db, harness.StoreOptions{MemoryBudget: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	s.do(t, harness.ExitFailed, "load", "--db", db, "--docs", "10")
	wants(t, s.errOut.String(), db, "locked")
	s.do(t, cli.ExitUsage, "load", "--db", filepath.Join(dir, "new"), "--memory-budget", "1MiB")
	wants(t, s.errOut.String(), "MemoryBudget")
}

// Wrong usage leaves nothing behind.
func TestUsageMakesNoStore(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "in.ndjson")
	if err := os.WriteFile(file, []byte(`{"id":"1","k":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "db")
	for _, c := range []struct{ args, text string }{
		{"--partition-key a", `"a"`},
		{"--partition-key /a,/b,/c,/d", "4 partition key paths"},
		{"--partition-key /k --partitions 70000", "--partitions 70000"},
		{"--partition-key /k --partitions 0", `"0"`},
		{"--partition-key /k --container ../x", `"../x"`},
		{"--partition-key /k --container a#", `"a#"`},
		{"--partition-key /k --container=", `""`},
		{"--partition-key /k --compression much", "much"},
		{"--partition-key /k --batch-bytes 100GiB", "--batch-bytes: at most 8"},
		{"--partition-key /k --batch-bytes 0", "at least 1"},
		{"--partition-key /k --max-errors=-1", "--max-errors -1"},
		{"--partition-key /k --memory-budget 1MiB", "MemoryBudget"},
		{"", "it needs --partition-key"},
	} {
		s := newEngineSession(t)
		s.do(t, cli.ExitUsage, append([]string{"load", "--db", db, "--data", file}, strings.Fields(c.args)...)...)
		wants(t, s.errOut.String(), c.text, "See pbench load --help.")
		if _, err := os.Stat(db); err == nil {
			t.Fatalf("%s: a store is left behind", c.args)
		}
	}
}

// A load that is broken off and gone on with gives the same store.
func TestEndToEndInterrupted(t *testing.T) {
	db := filepath.Join(t.TempDir(), "db")
	s := newEngineSession(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Stdin = &cancelling{text: strings.NewReader(strings.Repeat("{\"id\":\"a\"}\n", 10) + strings.Repeat("{\"id\":\"b\",\"k\":1}\n", 100_000)), cancel: cancel}
	s.doContext(t, ctx, cli.ExitInterrupted, "load", "--db", db, "--data", "-", "--partition-key", "/k", "--partitions", "1", "--batch-bytes", "4KiB")
	wants(t, s.errOut.String(), "documents were written; to go on there", "--skip ", "interrupted")
	s.Stdin = strings.NewReader(strings.Repeat("{\"id\":\"a\"}\n", 10) + "{\"id\":\"b\",\"k\":1}\n")
	s.do(t, cli.ExitOK, "load", "--db", db, "--data", "-", "--partition-key", "/k")
	s.do(t, cli.ExitOK, "run", "--db", db, "--ops", "10", "--warmup", "0s", "--workload", "c")
	wants(t, s.out.String(), "2 documents in 1 physical partition;")
}

// cancelling cancels in its second read.
type cancelling struct {
	text   *strings.Reader
	cancel func()
	reads  int
}

func (c *cancelling) Read(p []byte) (int, error) {
	if c.reads++; c.reads == 2 {
		c.cancel()
	}
	return c.text.Read(p)
}

// A container may have any name that the engine takes.
func TestContainerNames(t *testing.T) {
	def := harness.ContainerDef{PartitionKey: []string{"/k"}, Compression: "fast", Partitions: 1}
	for _, name := range []string{"routes", "FD u", "größe", strings.Repeat("x", 255)} {
		if err := harness.CheckNewContainer(name, def); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a/b", `a\b`, "a#", "a?", "a\n", "a\xff", "a\uFFFD", strings.Repeat("x", 256)} {
		if err := harness.CheckNewContainer(name, def); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// TestFreshFileSystem: a command that lacks what it needs makes no store in a new file system.
func TestFreshFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := newEngineSession(t)
	s.do(t, harness.ExitFailed, "run", "--db", dir, "--workload", "read", "--closed", "--ops", "10")
	wants(t, s.errOut.String(), "load something first")
	s.Stdin = strings.NewReader(`{"id":"1","k":"a"}`)
	s.do(t, cli.ExitUsage, "load", "--db", dir, "--data", "-")
	wants(t, s.errOut.String(), "--partition-key")
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

// Queries of all kinds run beside writes, on documents that are indexed.
func TestRunQueries(t *testing.T) {
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "3000", "--logical-partitions", "10", "--index", "--durability", "buffered",
		"--workload", "query-mixed", "--closed", "--ops", "600", "--workers", "2", "--warmup", "10ms")
	wants(t, s.out.String(), "equal ", "and ", "range ", "first ", "ordered ", "within ", "update ")
	for _, wrong := range [][]string{
		{"run", "--docs", "100", "--workload", "query-equal", "--ops", "1", "--closed"},
		{"run", "--docs", "100", "--index", "--generator", "small", "--workload", "query-equal", "--ops", "1", "--closed"},
	} {
		s.do(t, cli.ExitUsage, wrong...)
		wants(t, s.errOut.String(), "query-equal")
	}
}
