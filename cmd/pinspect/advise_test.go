package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

// golden compares text with a file of testdata; -rewrite accepts it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *rewrite {
		check(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	check(t, err)
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("the output differs from %s (-rewrite accepts it):\n%s", name, got)
	}
}

// orders is NDJSON with keys of every sort.
func orders(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		tenant := i % 150
		if i%8 == 0 {
			tenant = 0
		}
		channel := ""
		if i%10 < 3 {
			channel = `,"channel":null`
		} else if i%10 < 9 {
			channel = fmt.Sprintf(`,"channel":"c%d"`, i%120)
		}
		fmt.Fprintf(&b, `{"id":"o%05d","tenant":"t%d","user":{"id":%d},"status":"%s","day":"2024-03-%02d"%s}`+"\n",
			i, tenant, i%700, []string{"open", "done"}[i%2], 1+i*20/n, channel)
	}
	return b.Bytes()
}

// ordersFile writes orders into a file.
func ordersFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "orders.ndjson")
	check(t, os.WriteFile(name, orders(4000), 0o600))
	return name
}

func TestAdviseOutput(t *testing.T) {
	file := ordersFile(t)
	golden(t, "advise-keys.txt", clean(t, "advise", "--show-keys", "--key", "/tenant", "--key", "/status", "--key=/channel", "--key", "/day", "--key", "/tenant,/user/id", "--key", "/id", file))
	golden(t, "advise-proposed.txt", clean(t, "advise", "--target-bytes", "500GiB", "--throughput", "20000", file))
	golden(t, "advise-one.txt", clean(t, "advise", "--key", "/status", "--growth", "1000x", "--partitions", "40", "--limit", "1500", file))
}

// Plain and compressed files, standard input and a store give the same.
func TestAdviseSources(t *testing.T) {
	dir := t.TempDir()
	text := orders(1500)
	plain := filepath.Join(dir, "orders")
	check(t, os.WriteFile(plain, text, 0o600))
	var gz, zst bytes.Buffer
	g := gzip.NewWriter(&gz)
	_, err := g.Write(text)
	check(t, err)
	check(t, g.Close())
	z, err := zstd.NewWriter(&zst)
	check(t, err)
	_, err = z.Write(text)
	check(t, err)
	check(t, z.Close())
	check(t, os.WriteFile(plain+".gz", gz.Bytes(), 0o600))
	check(t, os.WriteFile(plain+".zst", zst.Bytes(), 0o600))
	report := func(name string, stdin []byte) map[string]any {
		t.Helper()
		var out, errs bytes.Buffer
		args := []string{"advise", "--json", "--key", "/tenant", "--key", "/channel", name}
		if status := execute(t.Context(), args, &environment{stdin: bytes.NewReader(stdin), stdout: &out, stderr: &errs}); status != cli.ExitOK {
			t.Fatalf("%s: status %d: %s", name, status, &errs)
		}
		v := objects(t, out.String())[0]
		delete(v, "inputs")
		return v
	}
	want := fmt.Sprint(report(plain, nil))
	for _, name := range []string{plain + ".gz", plain + ".zst", "-"} {
		if got := fmt.Sprint(report(name, text)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	// A store's documents come in another order.
	s := newSample(t)
	v := objects(t, clean(t, "advise", s.dir, "--container", "cities", "--key", "/country", "--json", "--show-keys"))[0]
	c := v["candidates"].([]any)[0].(map[string]any)
	if v["documents"] != float64(len(s.cities)) || c["logical_partitions"] != 7.0 {
		t.Errorf("%v documents, want %d: %v", v["documents"], len(s.cities), c)
	}
	if text := clean(t, "advise", "--container", "cities", "--key", "/id", s.dir, plain); !strings.Contains(text, humanize.Count(1500+len(s.cities))+" documents") {
		t.Errorf("a store and a file together:\n%s", text)
	}
}

func TestAdviseBadInput(t *testing.T) {
	s := newSample(t)
	file := ordersFile(t)
	bad := filepath.Join(t.TempDir(), "bad.ndjson")
	check(t, os.WriteFile(bad, []byte("{\"id\":\"1\"}\n\n{\"id\":\"2\",}\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty.ndjson")
	check(t, os.WriteFile(empty, nil, 0o600))
	cut := filepath.Join(t.TempDir(), "cut.ndjson.gz")
	check(t, os.WriteFile(cut, []byte("\x1f\x8b\x08\x00"), 0o600))
	f := func(status int, text string, args ...string) {
		t.Helper()
		r := pinspect(t, append([]string{"advise"}, args...)...)
		if r.status != status || !strings.Contains(r.stderr, text) || r.stdout != "" {
			t.Errorf("%q: status %d, want %d and %q\n%s%s", args, r.status, status, text, r.stdout, r.stderr)
		}
	}
	f(exitFindings, "bad.ndjson: line 3, column 11: offset 10", "--key", "/a", bad)
	f(exitFindings, "bad.ndjson: line 3", bad)
	f(exitFindings, "cut.ndjson.gz: line 1", cut)
	f(exitFindings, "no documents", empty)
	f(exitCannotOpen, "absent", "absent.ndjson")
	f(exitCannotOpen, "not a cleave store", t.TempDir())
	f(cli.ExitUsage, "with --container which of these it is: cities, empty", s.dir)
	f(cli.ExitUsage, "opaque", "--container", "blobs", s.dir)
	f(cli.ExitUsage, `"nowhere"`, "--container", "nowhere", s.dir)
	f(cli.ExitUsage, "must begin with a slash", "--key", "tenant", file)
	f(cli.ExitUsage, "1 to 3", "--key", "/a,/b,/c,/d", file)
	f(cli.ExitUsage, "--key /a,/b is given twice", "--key", "/a,/b", "--key", "/a", "--key", "/a,/b", file)
	f(cli.ExitUsage, "no factor", "--growth", "much", file)
	f(cli.ExitUsage, "number of bytes", "--target-bytes", "1 box", file)
	f(cli.ExitUsage, "the same thing", "--target-bytes", "1TiB", "--growth", "3", file)
	f(cli.ExitUsage, "--partitions", "--partitions=-1", file)
	f(cli.ExitUsage, "--limit", "--limit=-1", file)
	f(cli.ExitUsage, "--top", "--top=-1", file)
	f(cli.ExitUsage, "--max-keys", "--max-keys=0", file)
	f(cli.ExitUsage, "--throughput", "--throughput=-5", file)
	f(cli.ExitUsage, "--throughput", "--throughput=NaN", file)
	f(cli.ExitUsage, "--throughput", "--throughput=Inf", file)
	f(cli.ExitUsage, "only once", "-")
	f(cli.ExitUsage, "<file|dir>")
	f(cli.ExitUsage, "empty", "")
}

func TestGrowthFactor(t *testing.T) {
	for text, want := range map[string]growthFactor{"1000": 1000, "1_000x": 1000, "2.5×": 2.5, "3X": 3} {
		var g growthFactor
		if err := g.UnmarshalText([]byte(text)); err != nil || g != want {
			t.Errorf("%q: %v, %v", text, g, err)
		}
	}
	for _, text := range []string{"", "x", "0", "-1", "1e999", "NaN", "inf"} {
		if err := new(growthFactor).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a factor", text)
		}
	}
}

// TestAdvisePrintable: names of members, which anybody may have written, do not steer a terminal.
func TestAdvisePrintable(t *testing.T) {
	var in strings.Builder
	for i := range 30 {
		fmt.Fprintf(&in, `{"id":"%d","\u001b[2Jx":"t%d"}`+"\n", i, i%15)
	}
	file := filepath.Join(t.TempDir(), "in.ndjson")
	check(t, os.WriteFile(file, []byte(in.String()), 0o600))
	for _, args := range [][]string{{"advise", file}, {"import", file, "--container", "c", "--dry-run"}} {
		if got := clean(t, args...); strings.Contains(got, "\x1b") || !strings.Contains(got, `\x1b[2Jx`) {
			t.Errorf("%s: %q", args[0], got)
		}
	}
}

// With more keys than are counted, the output says what is estimated.
func TestAdviseEstimates(t *testing.T) {
	text := clean(t, "advise", "--max-keys", "100", "--key", "/id", ordersFile(t))
	for _, want := range []string{"~", "Note: More keys than are counted one by one: /id."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

// Samples of real data: the keys that are to be taken.
func TestAdviseRealData(t *testing.T) {
	f := func(file, want string, args ...string) {
		name := filepath.Join("..", "..", "testdata", "real", file)
		v := objects(t, clean(t, append(append([]string{"advise", "--json"}, args...), name)...))[0]
		if got := v["advice"].(map[string]any)["take"]; got != want {
			t.Errorf("%s %v: take %v, want %s", file, args, got, want)
		}
	}
	f("flight-routes.ndjson.zst", "/from", "--key", "/airline", "--key", "/from", "--key", "/from,/airline")
	f("flight-routes.ndjson.zst", "/from,/airline", "--target-bytes", "2TiB", "--key", "/airline", "--key", "/from", "--key", "/from,/airline")
	f("go-advisories.ndjson.zst", "/module", "--key", "/module", "--key", "/id")
	f("go-advisories.ndjson.zst", "/module")
	f("retail-products-reviews.ndjson.zst", "/productId")
	// The elevation of a volcano divides the documents well, and is a measurement.
	text := clean(t, "advise", filepath.Join("..", "..", "testdata", "real", "volcanoes.ndjson.zst"))
	if strings.Contains(text, "Elevation") || !strings.Contains(text, "/Country") {
		t.Errorf("%s", text)
	}
}

// TestAdvisePipe: a pipe, which <(...) names in a shell, is read once, as standard input is.
func TestAdvisePipe(t *testing.T) {
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(name); err != nil {
		t.Skipf("this system has no names for open files: %v", err)
	}
	_, err = w.WriteString(`{"id":"a","k":1}` + "\n")
	check(t, errors.Join(err, w.Close()))
	if got := pinspect(t, "advise", name); got.status != cli.ExitUsage || !strings.Contains(got.stderr, name+" can be read only once") {
		t.Errorf("status %d: %s", got.status, got.stderr)
	}
	if got := clean(t, "advise", name, "--key", "/k"); !strings.Contains(got, "1 document") {
		t.Errorf("with a key: %s", got)
	}
}

// TestAdviseTop: as many of the largest logical partitions are named as were asked for, also none.
func TestAdviseTop(t *testing.T) {
	file := ordersFile(t)
	for top := range 3 {
		v := objects(t, clean(t, "advise", "--json", "--key", "/tenant", "--top", fmt.Sprint(top), file))[0]
		candidate := v["candidates"].([]any)[0].(map[string]any)
		if largest := candidate["largest"].([]any); len(largest) != top || candidate["largest_share"].(float64) == 0 {
			t.Errorf("--top %d names %v", top, largest)
		}
	}
}
