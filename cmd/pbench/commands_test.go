package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

func TestUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.ndjson")
	if err := os.WriteFile(file, []byte(`{"id":"1","k":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want int
		text string
	}{
		{"bogus", cli.ExitUsage, "unexpected argument bogus"},
		{"--docs x", cli.ExitUsage, "no count"},
		{"load", cli.ExitUsage, "--db"},
		{"load --db= --docs 10", cli.ExitUsage, "--db"},
		{"load --db D --docs 0", cli.ExitUsage, `"0": want at least 1`},
		{"load --db D --logical-partitions 0", cli.ExitUsage, "at least 1"},
		{"run --db= --ops 10", cli.ExitUsage, "--db"},
		{"run --docs 0", cli.ExitUsage, "at least 1"},
		{"run --partitions 0", cli.ExitUsage, "at least 1"},
		{"--docs 0", cli.ExitUsage, "at least 1"},
		{"load --db D --data F", cli.ExitUsage, "it needs --partition-key"},
		{"load --db D --data F --skew 1", cli.ExitUsage, "do not go with --data"},
		{"load --db D --data nothing-here", harness.ExitFailed, "nothing-here"},
		{"load --db D --data D", harness.ExitFailed, "is a directory"},
		{"load --db D --generator wood", cli.ExitUsage, `unknown generator "wood"`},
		{"load --db D --skew=-1", cli.ExitUsage, "skew -1"},
		{"load --db D --partition-key /x", cli.ExitUsage, "food documents is /foodGroup"},
		{"load --db D --docs 10 --skip 11", cli.ExitUsage, "--skip 11"},
		{"load --db D --durability maybe", cli.ExitUsage, `durability "maybe"`},
		{"load --db D --memory-budget lots", cli.ExitUsage, `"lots" is no number of bytes`},
		{"run --workload z", cli.ExitUsage, `unknown workload "z"`},
		{"run --mix read=0", cli.ExitUsage, "all weights are 0"},
		{"run --keys some", cli.ExitUsage, `keys "some"`},
		{"run --workers=-1", cli.ExitUsage, "--workers -1"},
		{"run --duration=-1s", cli.ExitUsage, "negative"},
		{"run --profile cpu,lunch", cli.ExitUsage, `unknown profile "lunch"`},
		{"run --profile-out D", cli.ExitUsage, "goes with --profile"},
		{"run --profile cpu --profile-out D/none", cli.ExitUsage, "is no directory"},
		{"run --rate fast", cli.ExitUsage, `"fast" is no rate`},
		{"run --rate 100 --closed", cli.ExitUsage, "--rate does not go with --closed"},
		{"run --spin --closed", cli.ExitUsage, "--spin does not go with --closed"},
		{"run --closed --throughput -5", cli.ExitUsage, "write --throughput=-5"},
		{"run --closed --throughput=-5", cli.ExitUsage, `"-5"`},
		{"run --count 0", cli.ExitUsage, "--count 0"},
		{"run --split-at 5s --duration 5s", cli.ExitUsage, "the run is over after 5s"},
		{"run --split-at 1s,20s", cli.ExitUsage, "--split-at 20s"},
		{"run --split-at soon", cli.ExitUsage, "--split-at"},
		{"run --max-partition-bytes 0", cli.ExitUsage, "at least 1"},
		{"copy --db D", cli.ExitUsage, "--to"},
		{"copy --db D --to x", cli.ExitUsage, "--partition-key"},
		{"copy --db D --to x --partition-key /a", harness.ExitFailed, "is empty"},
		{"copy --db D --to x --partition-key /a --drop --no-finish", cli.ExitUsage, "--drop does not go"},
		{"run --out full", cli.ExitUsage, "is not empty"},
		{"run --fail-if read.p98>1ms", cli.ExitUsage, `"read.p98>1ms"`},
		{"run --fail-if scan.p99>1ms", cli.ExitUsage, "has no scan"},
		{"sweep", cli.ExitUsage, "--slo"},
		{"sweep --slo read.p99>1ms", cli.ExitUsage, "want an upper bound"},
		{"sweep --slo scan.p99<1ms", cli.ExitUsage, "has no scan"},
		{"sweep --slo read.p99<1ms --duration 0s", cli.ExitUsage, "--duration"},
		{"sweep --slo read.p99<1ms --db full", harness.ExitFailed, "no container"},
		{"compare D", cli.ExitUsage, "<new>"},
		{"compare D D", harness.ExitFailed, "no results of pbench run in it"},
		{"compare F F", harness.ExitFailed, "no result of pbench run"},
		{"compare nothing-here F", harness.ExitFailed, "nothing-here"},
		{"compare F F --fail-on 0", cli.ExitUsage, "no percentage"},
		{"run --container c", cli.ExitUsage, "--container"},
		{"run --db D --docs 10", cli.ExitUsage, "loaded before"},
		{"run --db D --partitions 10", cli.ExitUsage, "loaded before"},
		{"run --db D/none", harness.ExitFailed, "none"},
		{"run --db D", harness.ExitFailed, "is empty"},
		{"run --db full", harness.ExitFailed, "no container"},
		{"run --db full --container c", harness.ExitFailed, `container "c": no such container`},
	} {
		s := newSession(t)
		dir := t.TempDir()
		args := strings.Fields(c.args)
		for i := range args {
			switch args[i] {
			case "F":
				args[i] = file
			case "full":
				args[i] = full
			case "D", "D/none":
				args[i] = dir + args[i][1:]
			}
		}
		s.do(t, c.want, args...)
		wants(t, s.errOut.String(), "pbench: ", c.text)
		if hint := strings.Contains(s.errOut.String(), "--help."); hint != (c.want == cli.ExitUsage) {
			t.Errorf("%s: %s", c.args, &s.errOut)
		}
		if s.out.Len() > 0 {
			t.Errorf("%s: on standard output: %s", c.args, &s.out)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, command := range []string{"", "demo", "load", "run", "sweep", "reopen", "copy", "compare", "report", "list"} {
		s := newSession(t)
		s.do(t, cli.ExitOK, strings.Fields(command+" --help")...)
		if command != "" && command != "list" {
			wants(t, s.out.String(), "Examples:", "pbench ")
		}
		if strings.Contains(s.out.String(), "${") {
			t.Errorf("%s: a variable is left in\n%s", command, &s.out)
		}
	}
	_, more, _ := strings.Cut(new(demoCommand).Help(), "more commands: ")
	for _, command := range strings.Split(more, ", ") {
		newSession(t).do(t, cli.ExitOK, command, "--help")
	}
	s := newSession(t)
	s.do(t, cli.ExitOK, "--help")
	wants(t, strings.Join(strings.Fields(s.out.String()), " "), "Exit status: 0 success, 1 something failed, 2 wrong usage, 3 the disk is full, 130 interrupted.")
	s.do(t, cli.ExitOK, "list")
	wants(t, s.out.String(), "ycsb-a", "zipf:0.99", "/foodGroup", "hot:F/S")
}

func TestLoadAndRun(t *testing.T) {
	dir := t.TempDir()
	s := newSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "300", "--logical-partitions", "7", "--generator", "small")
	wants(t, s.out.String(), "small documents, 7 logical partitions, seed 1 into 4 physical partitions", "300 documents", "write amplification 2.00", "disk ")
	if !s.store.closed {
		t.Error("the store is left open")
	}
	for _, w := range workload.Workloads() {
		if w.Mix.Queries() {
			continue // TestEndToEnd has them
		}
		s.do(t, cli.ExitOK, "run", "--db", dir, "--workload", w.Name, "--ops", "500", "--warmup", "0s", "--workers", "3", "--json", "-")
		var r report
		if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v in\n%s", w.Name, err, &s.out)
		}
		if r.All.Ops != 500 || r.All.Errors != 0 || r.Workload != w.Name {
			t.Errorf("%s: %+v", w.Name, r.All)
		}
		for op, share := range w.Mix {
			if got := r.Ops[workload.Op(op).String()].Ops; (got > 0) != (share > 0) {
				t.Errorf("%s: %d of %v", w.Name, got, workload.Op(op))
			}
		}
	}
	// What was inserted is known to the next run.
	known, err := harness.ReadCatalog(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n, want := known.Containers["docs"].Documents, int64(len(s.store.containers["docs"].docs)); n != want || n <= 800 {
		t.Errorf("the catalog knows %d documents, there are %d", n, want)
	}
}

func TestRunWithoutStore(t *testing.T) {
	s := newSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "200", "--ops", "100", "--warmup", "1ms", "--partitions", "2", "--profile", "heap,mutex", "--workload", "a", "--closed")
	text := s.out.String()
	wants(t, text, "food documents", "into 2 physical partitions", "loaded   200 documents", "$ pbench run --docs 200",
		"200 documents in 2 physical partitions; ycsb-a (read=50,update=50), zipf:0.99 keys, seed 1\n16 workers, closed loop, synced, memory budget 256 MiB, ", "ALL  ", "heap profile", "mutex profile")
	if lines := strings.Count(text, "\n"); lines > 60 {
		t.Errorf("%d lines", lines)
	}
}

func TestRunMix(t *testing.T) {
	s := newSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "100", "--ops", "100", "--warmup", "0s", "--mix", "read=1,scan=1", "--keys", "hot:0.1/0.9", "--workers", "1", "--closed")
	wants(t, s.out.String(), "mix (read=50,scan=50), hot:0.1/0.9 keys", "1 worker, ", "read ", "scan ", "the one worker would make")
}

func TestRunJSONFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "run.json")
	s := newSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "50", "--ops", "50", "--warmup", "0s", "--json", name)
	wants(t, s.out.String(), "ALL ")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, string(text), `"workload": "ycsb-b"`)

	// A file that cannot be written ends the command before the work.
	s.Environment.Open = func(context.Context, string, harness.StoreOptions) (harness.Store, error) {
		return nil, errors.New("opened")
	}
	loaded := t.TempDir()
	if err = os.WriteFile(filepath.Join(loaded, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"run --docs 50", "", "load --docs 10 --db " + t.TempDir(), "run --db " + loaded} {
		s.do(t, harness.ExitFailed, append(strings.Fields(args), "--json", filepath.Join(name, "x"))...)
		if !strings.Contains(s.errOut.String(), name) {
			t.Errorf("%s: %s", args, &s.errOut)
		}
	}
	// A command that fails leaves what was there, and nothing new.
	s.do(t, harness.ExitFailed, "run", "--docs", "50", "--json", name)
	if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%v: %s", err, now)
	}
	s.do(t, harness.ExitFailed, "run", "--docs", "50", "--json", name+"2")
	if _, err := os.Stat(name + "2"); err == nil {
		t.Error("an empty file is left behind")
	}
	s.do(t, cli.ExitUsage, "run", "--docs", "50", "--json=")
}

func TestLoadJSON(t *testing.T) {
	dir, name := t.TempDir(), filepath.Join(t.TempDir(), "load.json")
	s := newSession(t)
	s.Stdin = strings.NewReader("{\"id\":\"1\",\"k\":\"a\"}\n{\"id\":\"2\"\n{\"id\":\"3\",\"k\":\"a\"}")
	s.do(t, cli.ExitOK, "load", "--db", dir, "--data", "-", "--partition-key", "/k", "--max-errors", "1", "--json", "-")
	printed := bytes.Clone(s.out.Bytes())
	if got := keysOf(t, printed); !slices.Equal(got, []string{"all", "engine", "v", "workload"}) {
		t.Errorf("fields %q", got)
	}
	var r loadReport
	if err := json.Unmarshal(printed, &r); err != nil {
		t.Fatal(err)
	}
	if r.V != 1 || r.Workload != "load" || r.All.Ops != 2 || r.All.Errors != 1 || r.All.Bytes != 36 || r.All.OpsPerS <= 0 ||
		r.Engine.DiskBytes == 0 || r.Engine.Run.Documents != 2 || r.Engine.From.Go == "" {
		t.Errorf("%s", printed)
	}
	s.do(t, cli.ExitOK, "load", "--db", t.TempDir(), "--container", "c2", "--docs", "10", "--json", name)
	wants(t, s.out.String(), "loaded   10 documents")
	text, err := os.ReadFile(name)
	if err != nil || !slices.Equal(keysOf(t, text), keysOf(t, printed)) {
		t.Errorf("%v: %s", err, text)
	}
}

func TestListJSON(t *testing.T) {
	s := newSession(t)
	s.do(t, cli.ExitOK, "list", "--json")
	var r listReport
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Workloads) != len(workload.Workloads()) || len(r.Generators) != len(workload.Shapes()) || r.Workloads[0].Mix == "" || r.Generators[0].KeyPath == "" {
		t.Errorf("%+v", r)
	}
}

func TestLoadFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "in.gz")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(file)
	for _, line := range []string{`{"id":"1","k":"a"}`, ``, `{"id":"2","k":"b"}`, `{"id":"3",`, `{"id":"4","k":"b"}`, `{"k":"b"}`, `{"id":"6","k":"b"}`} {
		if _, err := z.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	db := t.TempDir()
	s := newSession(t)
	s.do(t, harness.ExitFailed, "load", "--db", db, "--container", "c", "--data", name, "--partition-key", "/k")
	wants(t, s.errOut.String(), name+": line 4: document:", "2 documents were written", "--skip 3;", "--max-errors")
	if !s.store.closed {
		t.Error("the store is left open")
	}
	s.do(t, harness.ExitFailed, "load", "--db", db, "--container", "c", "--data", name, "--skip", "3")
	wants(t, s.errOut.String(), "line 6: document without id", "1 document was written", "--skip 5;")
	s.do(t, cli.ExitOK, "load", "--db", db, "--container", "c", "--data", name, "--max-errors", "2")
	wants(t, s.errOut.String(), "refused: "+name+": line 4", "refused: "+name+": line 6")
	wants(t, s.out.String(), "4 documents", "refused  2 documents")
	s.do(t, harness.ExitFailed, "load", "--db", db, "--container", "c", "--data", name, "--max-errors", "1")
	wants(t, s.errOut.String(), "--skip 5;")
	s.do(t, cli.ExitOK, "load", "--db", db, "--container", "c", "--data", name, "--docs", "2")
	wants(t, s.out.String(), "loaded   2 documents")

	s.do(t, cli.ExitUsage, "load", "--db", db, "--container", "c", "--data", name, "--partition-key", "/other")
	wants(t, s.errOut.String(), "partition key [/k], not [/other]")
	s.do(t, cli.ExitUsage, "load", "--db", db, "--container", "c", "--data", name, "--partitions", "9")
	s.do(t, cli.ExitUsage, "load", "--db", db, "--container", "c", "--data", name, "--compression", "small")

	// A run on documents from elsewhere reads what is there, and inserts nothing.
	s.do(t, cli.ExitOK, "run", "--db", db, "--ops", "100", "--warmup", "0s", "--workload", "f")
	wants(t, s.out.String(), "rmw ")
	s.do(t, cli.ExitUsage, "run", "--db", db, "--ops", "100", "--workload", "d")
	wants(t, s.errOut.String(), "cannot insert")
}

func TestLoadStandardInput(t *testing.T) {
	s := newSession(t)
	s.Stdin = strings.NewReader("{\"id\":\"1\",\"k\":\"a\"}\n{\"id\":\"2\",\"k\":\"a\"}")
	s.do(t, cli.ExitOK, "load", "--db", t.TempDir(), "--data", "-", "--partition-key", "/k", "--partitions", "1")
	wants(t, s.out.String(), "standard input into 1 physical partition\n", "2 documents")
}

func TestLoadInterrupted(t *testing.T) {
	dir := t.TempDir()
	s := newSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "10")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.store.containers["docs"].onLoad = func(n int64) {
		if n == 50 {
			cancel()
		}
	}
	s.doContext(t, ctx, cli.ExitInterrupted, "load", "--db", dir, "--docs", "100")
	wants(t, s.errOut.String(), "50 documents were written", "--skip 50", "interrupted")
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "100", "--skip", "50")
	if n := len(s.store.containers["docs"].docs); n != 100 {
		t.Errorf("%d documents", n)
	}
	if known, err := harness.ReadCatalog(dir); err != nil || known.Containers["docs"].Documents != 100 {
		t.Errorf("%v: %+v", err, known)
	}
}

// An interrupted run prints what it measured.
func TestRunInterrupted(t *testing.T) {
	dir := t.TempDir()
	s := newSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "10")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reads atomic.Int64
	s.store.containers["docs"].onRead = func(string) {
		if reads.Add(1) == 1000 {
			cancel()
		}
	}
	s.doContext(t, ctx, cli.ExitInterrupted, "run", "--db", dir, "--duration", "1h", "--warmup", "0s", "--closed")
	wants(t, s.out.String(), "INTERRUPTED", "ALL ", "disk ")
	s.doContext(t, ctx, cli.ExitInterrupted, "run", "--docs", "10")
	s.doContext(t, ctx, cli.ExitInterrupted)
	if s.out.Len() > 0 {
		t.Errorf("nothing was measured, printed\n%s", &s.out)
	}
}

// Before anything is measured there is nothing to print.
func TestRunInterruptedInWarmup(t *testing.T) {
	dir := t.TempDir()
	s := newSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "10")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.store.containers["docs"].onRead = func(string) { cancel() }
	s.store.closed = false
	s.doContext(t, ctx, cli.ExitInterrupted, "run", "--db", dir, "--duration", "1h", "--warmup", "1h", "--workload", "c")
	wants(t, s.errOut.String(), "pbench: interrupted before measuring\n")
	if s.out.Len() > 0 || !s.store.closed {
		t.Errorf("closed %v, printed\n%s", s.store.closed, &s.out)
	}
}

// What is wrong with an input is told once.
func TestLoadBrokenInput(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range 1000 {
		fmt.Fprintf(z, "{\"id\":\"%d\",\"k\":\"%x\"}\n", i, i*i*i)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "in.gz")
	if err := os.WriteFile(name, b.Bytes()[:b.Len()/2], 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSession(t)
	s.do(t, harness.ExitFailed, "load", "--db", t.TempDir(), "--data", name, "--partition-key", "/k")
	if n := strings.Count(s.errOut.String(), "unexpected EOF"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &s.errOut)
	}
}

func TestRunErrors(t *testing.T) {
	dir := t.TempDir()
	s := newSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "10")
	s.store.containers["docs"].readErr = errors.New("the disk is gone")
	s.do(t, harness.ExitFailed, "run", "--db", dir, "--duration", "1h", "--warmup", "0s", "--workers", "2", "--workload", "c", "--closed")
	wants(t, s.errOut.String(), "2,000 operations failed, the first: read: the disk is gone")
	wants(t, s.out.String(), "ALL ")
	s.store.containers["docs"].readErr = nil
	s.store.closeErr = errors.New("close failed")
	s.do(t, harness.ExitFailed, "run", "--db", dir, "--ops", "10", "--warmup", "0s")
	wants(t, s.errOut.String(), "close failed")
	s.Environment.Open = func(context.Context, string, harness.StoreOptions) (harness.Store, error) {
		return nil, errors.New("locked")
	}
	s.do(t, harness.ExitFailed, "run", "--db", dir)
	wants(t, s.errOut.String(), "pbench: locked")
}

func TestCatalog(t *testing.T) {
	dir := t.TempDir()
	if c, err := harness.ReadCatalog(dir); err != nil || len(c.Containers) != 0 {
		t.Errorf("an empty directory: %v, %v", c, err)
	}
	if err := harness.SetOrigin(dir, "a", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, harness.CatalogName)); err == nil {
		t.Error("a file about nothing")
	}
	o := &harness.Origin{Generator: workload.Params{Shape: "food", Seed: 3, LogicalPartitions: 5, Skew: 1}, Documents: 9}
	for _, name := range []string{"a", "b"} {
		if err := harness.SetOrigin(dir, name, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := harness.SetOrigin(dir, "a", nil); err != nil {
		t.Fatal(err)
	}
	c, err := harness.ReadCatalog(dir)
	if err != nil || len(c.Containers) != 1 || c.Containers["b"] != *o {
		t.Errorf("%v: %+v", err, c)
	}
	for _, text := range []string{"{", `{"v":2}`} {
		if err := os.WriteFile(filepath.Join(dir, harness.CatalogName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := harness.ReadCatalog(dir); err == nil || !strings.Contains(err.Error(), "delete it to go on") {
			t.Errorf("%s is read: %v", text, err)
		}
	}
}

func TestSampledDocuments(t *testing.T) {
	s := newFakeStore()
	c, err := s.CreateContainer(t.Context(), "c", harness.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	for i := range n {
		if err := c.Upsert(t.Context(), partmap.Key{}, "", fmt.Appendf(nil, `{"id":"%d","k":"%d"}`, i, i%7)); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int64{n, n + 1, n - 1, 1000, 999, 1} {
		progress := 0
		d, err := harness.SampleDocuments(t.Context(), c, limit, func(int64) { progress++ })
		if err != nil || progress != 2 {
			t.Fatalf("%v: %d calls", err, progress)
		}
		if d.Count() > limit || d.Count() < limit*9/20 || d.Memory() < d.Count() {
			t.Errorf("limit %d: %d documents", limit, d.Count())
		}
		for i := range d.Count() {
			doc, err := d.AppendVersion(t.Context(), nil, i, 0)
			if want := fmt.Sprintf(`{"id":"%s",`, d.AppendID(nil, i)); err != nil || !strings.HasPrefix(string(doc), want) || !d.Check(doc, "") {
				t.Fatalf("%d: %v: %s", i, err, doc)
			}
		}
	}
}

// overwritten is a container that counts more documents than it has, as one does whose documents were overwritten.
type overwritten struct{ harness.Container }

func (overwritten) Stats() harness.ContainerStats { return harness.ContainerStats{Documents: 1000} }

// TestSampledOverwritten: a container with fewer documents than are counted is not taken for an empty one.
func TestSampledOverwritten(t *testing.T) {
	c, err := newFakeStore().CreateContainer(t.Context(), "c", harness.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	if err = c.Upsert(t.Context(), partmap.Key{}, "", []byte(`{"id":"a","k":"b"}`)); err != nil {
		t.Fatal(err)
	}
	d, err := harness.SampleDocuments(t.Context(), overwritten{c}, 10, func(int64) {})
	if err != nil || d.Count() != 1 {
		t.Errorf("%v: %d documents of 1", err, d.Count())
	}
}
