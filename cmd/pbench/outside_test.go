package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
)

// contents returns the files below a directory with what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestResultsOutsideStores: no command writes its results into a store, neither into that which it works on nor into another one,
// and none over a file of a store.
func TestResultsOutsideStores(t *testing.T) {
	dir := t.TempDir()
	s := newEngineSession(t)
	db, other, planned := filepath.Join(dir, "db"), filepath.Join(dir, "other"), filepath.Join(dir, "planned")
	for _, name := range []string{db, other} {
		s.do(t, cli.ExitOK, "load", "--db", name, "--docs", "50", "--generator", "small", "--durability", "buffered")
	}
	if err := os.Mkdir(planned, 0o700); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(other, "MANIFEST*"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifest in %s: %v", other, err)
	}
	run := []string{"run", "--db", db, "--durability", "buffered", "--workload", "read", "--closed", "--ops", "10", "--warmup", "0s"}
	result := filepath.Join(dir, "run.json")
	s.do(t, cli.ExitOK, append(run, "--json", result)...)
	before := contents(t, dir)
	with := func(args []string, more ...string) []string { return append(args[:len(args):len(args)], more...) }
	for _, args := range [][]string{
		with(run, "--json", filepath.Join(db, "run.json")),
		with(run, "--json", manifests[0]),
		with(run, "--out", filepath.Join(db, "out")),
		with(run, "--out", filepath.Join(other, "a", "b")),
		with(run, "--report", filepath.Join(db, "run.html")),
		with(run, "--report", manifests[0]),
		with(run, "--profile", "heap", "--profile-out", filepath.Join(other, "p")),
		{"run", "--docs", "50", "--workload", "read", "--json", filepath.Join(other, "run.json")},
		{"run", "--workload", "query-cliffs", "--docs", "1000", "--json", filepath.Join(other, "run.json")},
		{"run", "--workload", "stalls", "--json", filepath.Join(other, "run.json")},
		{"load", "--db", planned, "--docs", "50", "--json", filepath.Join(planned, "load.json")},
		{"sweep", "--db", db, "--workload", "read", "--slo", "read.p99<1s", "--json", filepath.Join(db, "sweep.json")},
		{"reopen", "--db", db, "--json", filepath.Join(db, "reopen.json")},
		{"compare", result, result, "--json", filepath.Join(db, "compare.json")},
		{"report", dir, "--html", filepath.Join(db, "report.html")},
		{"demo", "--json", filepath.Join(other, "demo.json")},
		{"demo", "--report", filepath.Join(other, "demo.html")},
	} {
		s.do(t, cli.ExitUsage, args...)
		for flag := range strings.SplitSeq("--json --out --report --profile-out --html", " ") {
			for i, arg := range args {
				if arg == flag {
					wants(t, s.errOut.String(), flag+": "+args[i+1]+" would lie in the store ")
				}
			}
		}
		after := contents(t, dir)
		for name, text := range after {
			if old, ok := before[name]; !ok || old != text {
				t.Errorf("pbench %s made or changed %s", strings.Join(args, " "), name)
			}
		}
		if len(after) != len(before) {
			t.Fatalf("pbench %s: %d files, before %d", strings.Join(args, " "), len(after), len(before))
		}
	}
}
