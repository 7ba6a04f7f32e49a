package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// namesLines returns documents of the form of us-first-names, year after year:
// the first ones of that data set if it is here.
func namesLines(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, dir := range []string{"../../../shared/data", "../../../../shared/data"} {
		f, err := os.Open(filepath.Join(filepath.FromSlash(dir), "us-first-names.ndjson.zst"))
		if err != nil {
			continue
		}
		defer f.Close()
		z, err := zstd.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		// A share of the years' documents, so that all years are there.
		lines := bufio.NewScanner(z)
		const published = 1_690_784
		for i := 0; lines.Scan(); i++ {
			if (i+1)*n/published > i*n/published {
				b.Write(append(lines.Bytes(), '\n'))
			}
		}
		return b.Bytes()
	}
	const years = 137
	for i := range n {
		year, name := 1880+i*years/n, fmt.Sprintf("Name%05d", i*7919%n)
		fmt.Fprintf(&b, `{"id":"%d-F-%s","name":%q,"sex":"F","year":%d,"births":%d}`+"\n", year, name, name, year, 5+n-i)
	}
	return b.Bytes()
}

// A load in the order of the years, each of them a logical partition, into one
// physical partition that may hold little: it splits again and again. Every
// document is found, no logical partition is in two places, the store is sound,
// and it takes no more room than one that is loaded into as many partitions.
func TestLoadSplits(t *testing.T) {
	dir := t.TempDir()
	lines := namesLines(t, 48_000)
	file := filepath.Join(dir, "names.ndjson")
	if err := os.WriteFile(file, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newEngineSession(t)
	db := filepath.Join(dir, "db")
	s.do(t, cli.ExitOK, "load", "--db", db, "--data", file, "--partition-key", "/year", "--partitions", "1", "--max-partition-bytes", "160KiB",
		"--batch-bytes", "64KiB", "--durability", "buffered", "--json", "-")
	var r loadReport
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	splits := r.Engine.Splits
	if splits == nil || splits.Count != r.Engine.Run.Partitions-1 || splits.CopiedBytes != 0 || splits.PauseMax <= 0 || r.All.Errors != 0 {
		t.Errorf("%d partitions, splits %+v", r.Engine.Run.Partitions, splits)
	}
	partitions := checkNames(t, db, lines)
	if partitions < 16 || partitions != r.Engine.Run.Partitions {
		t.Errorf("%d partitions, told %d", partitions, r.Engine.Run.Partitions)
	}

	direct := filepath.Join(dir, "direct")
	s.do(t, cli.ExitOK, "load", "--db", direct, "--data", file, "--partition-key", "/year", "--partitions", fmt.Sprint(partitions), "--durability", "buffered")
	after, err := measure.DiskBytes(filepath.Join(db, "p"), "")
	if err != nil {
		t.Fatal(err)
	}
	same, err := measure.DiskBytes(filepath.Join(direct, "p"), "")
	if err != nil {
		t.Fatal(err)
	}
	// Up to two runs of a partition remain, of which the second has a dictionary and
	// tables of its own: much, beside the few documents of this test.
	const runCost = 8 << 10
	runs, directRuns := countSegments(t, db), countSegments(t, direct)
	t.Logf("%d partitions: %d bytes in %d runs after splits, %d in %d loaded into them", partitions, after, runs, same, directRuns)
	if after > same*105/100+int64(max(0, runs-directRuns))*runCost || runs > 2*partitions {
		t.Errorf("%d bytes in %d runs after splits, %d in %d loaded into as many partitions", after, runs, same, directRuns)
	}
}

// countSegments returns the number of segment files of a store, those of several
// partitions several times.
func countSegments(t *testing.T, db string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(db, "p", "*", "*.seg"))
	if err != nil || len(names) == 0 {
		t.Fatalf("segments of %s: %d, %v", db, len(names), err)
	}
	return len(names)
}

// checkNames checks a store against what was loaded, and returns the number of
// its partitions.
func checkNames(t *testing.T, dir string, lines []byte) int {
	t.Helper()
	ctx := t.Context()
	db, err := engine.Open(ctx, dir, &engine.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.Container("docs")
	if err != nil {
		t.Fatal(err)
	}
	years := make(map[partmap.Key]bool)
	documents := 0
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var doc struct {
			ID   string
			Year float64
		}
		if err := json.Unmarshal(line, &doc); err != nil {
			t.Fatal(err)
		}
		key := partmap.Number(doc.Year)
		years[key] = true
		it, err := c.Read(ctx, key, doc.ID)
		if err != nil || !bytes.Equal(it.Body, line) {
			t.Fatalf("%s: %v: %s", doc.ID, err, it.Body)
		}
		documents++
	}
	for _, err := range c.ScanAll(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		documents--
	}
	if documents != 0 {
		t.Errorf("a scan finds %d documents fewer", documents)
	}
	home := make(map[partmap.Key]engine.PartitionID)
	for l, err := range c.LogicalPartitions(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		key, err := l.Key()
		if err != nil {
			t.Fatal(err)
		}
		if at, twice := home[key]; twice || !years[key] {
			t.Errorf("logical partition %v in %d and %d, loaded %v", key, at, l.Partition, years[key])
		}
		home[key] = l.Partition
	}
	if len(home) != len(years) {
		t.Errorf("%d logical partitions of %d", len(home), len(years))
	}
	for f, err := range db.Verify(ctx) {
		t.Errorf("verify: %v, %v", f, err)
	}
	return len(c.Partitions())
}

// A run tells of the splits that happen in it.
func TestRunSplitAt(t *testing.T) {
	dir := t.TempDir()
	s := newEngineSession(t)
	out := filepath.Join(dir, "out")
	s.do(t, cli.ExitOK, "run", "--docs", "2000", "--logical-partitions", "100", "--generator", "small", "--partitions", "2", "--durability", "buffered",
		"--workload", "a", "--rate", "2k", "--warmup", "10ms", "--duration", "700ms", "--workers", "4", "--split-at", "300ms,100ms", "--out", out)
	wants(t, s.out.String(), "splits   2; writes to the partition held up for", "0 B copied", "split of P", "2,000 documents in 4 physical partitions")
	text, err := os.ReadFile(filepath.Join(out, runFile))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if sum := r.Engine.Splits; sum == nil || sum.Count != 2 || sum.Failed != 0 || len(sum.List) != 2 {
		t.Fatalf("%+v", sum)
	}
	for _, f := range r.Engine.Splits.List {
		if f.Kind != "split" || f.Repeat != 1 || f.AtS <= 0 || len(f.Parents) != 1 || len(f.Children) != 2 || f.Pause <= 0 || f.Around == nil || f.Around.Errors != 0 || f.Around.P999 <= 0 {
			t.Errorf("%+v", f)
		}
	}
	series, err := os.ReadFile(filepath.Join(out, seriesFile))
	if err != nil {
		t.Fatal(err)
	}
	wants(t, string(series), `"splits":[{"kind":"split"`)

	// Where one logical partition is everything the run goes on and says why.
	s.do(t, cli.ExitOK, "run", "--docs", "200", "--logical-partitions", "1", "--generator", "small", "--partitions", "1", "--durability", "buffered",
		"--workload", "a", "--rate", "1k", "--warmup", "10ms", "--duration", "200ms", "--workers", "4", "--split-at", "50ms")
	wants(t, s.out.String(), "refused  1 split: cannot be reshaped: one logical partition is everything")
	wants(t, s.errOut.String(), "--split-at 50ms: ")
}

// A run tells what checkpoints of the store took, and leaves none.
func TestRunCheckpoints(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "2000", "--generator", "small", "--durability", "buffered")
	s.do(t, cli.ExitOK, "run", "--db", dir, "--durability", "buffered",
		"--workload", "a", "--rate", "2k", "--warmup", "10ms", "--duration", "400ms", "--workers", "4", "--checkpoint-every", "50ms")
	wants(t, s.out.String(), "copied   ", " ms (p50), ", "checkpoint", "without the sync of the log ")
	if _, err := os.Stat(harness.CheckpointDir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	if err := os.Mkdir(harness.CheckpointDir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	s.do(t, cli.ExitUsage, "run", "--db", dir, "--workload", "a", "--rate", "1k", "--duration", "100ms", "--checkpoint-every", "50ms")
	s.do(t, cli.ExitUsage, "run", "--db", dir, "--workload", "a", "--checkpoint-every", "-1s")
}

// The windows around cuts are those of the intervals around them.
func TestSplitWatch(t *testing.T) {
	log := new(harness.SplitLog)
	log.Note(harness.Reshape{Kind: "split"}) // before the run
	w := newSplitWatch(log)
	w.begin(1)
	begun := time.Now()
	cuts := map[int]time.Duration{30: 29700 * time.Millisecond, 100: 98500 * time.Millisecond}
	for i := range 160 {
		if cut, ok := cuts[i]; ok { // the store tells of it later
			log.Note(harness.Reshape{Kind: "split", Parents: []uint32{1}, Swapped: begun.Add(cut), Pause: time.Microsecond})
		}
		var tallies measure.Tallies
		latency := time.Millisecond
		switch i {
		case 29:
			latency = 20 * time.Millisecond
		case 98:
			latency = 30 * time.Millisecond
			tallies[workload.Update].Errors = 3
		}
		tallies[workload.Read].Record(latency)
		elapsed := time.Duration(i+1) * time.Second
		w.interval(measure.Interval{Progress: measure.Progress{Now: begun.Add(elapsed), Elapsed: elapsed}, Start: elapsed - time.Second, Tallies: &tallies})
	}
	log.Note(harness.Reshape{Kind: "merge", Err: errors.New("refused")})
	w.settle()
	s := w.summary()
	if s.Count != 2 || s.Failed != 1 || len(s.List) != 3 {
		t.Fatalf("%+v", s)
	}
	ms := func(f *harness.WindowFigures) int { return int(f.P999/1000 + 0.5) }
	for i, want := range []struct {
		at                    float64
		before, around, after int // ms
		seconds               [2]float64
	}{{29.7, 1, 20, 1, [2]float64{29, 60}}, {98.5, 1, 30, 1, [2]float64{60, 60}}} {
		f := s.List[1+i]
		if f.AtS != want.at || ms(f.Before) != want.before || ms(f.Around) != want.around || ms(f.After) != want.after ||
			f.Before.Seconds != want.seconds[0] || f.After.Seconds != want.seconds[1] || f.Around.Ops != 1 {
			t.Errorf("%+v: before %+v, around %+v, after %+v", f, f.Before, f.Around, f.After)
		}
	}
	if s.List[2].Around.Errors != 3 {
		t.Errorf("%+v", s.List[2].Around)
	}
	var b strings.Builder
	s.Print(&b)
	wants(t, b.String(), "splits   2; ", "split of P1 at 29.7 s", "p99.9 1.00 ms in the 29.0 s before, 20.0 in its second", "refused  1 split: refused")
}
