package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestList: each benchmark of the list is in its package.
func TestList(t *testing.T) {
	list, err := parseList(listText, regexp.MustCompile("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		dir := "../../" + l.pkg
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(l.benchmark, "/")
		found := false
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), "_test.go") {
				text, err := os.ReadFile(dir + "/" + e.Name())
				if err != nil {
					t.Fatal(err)
				}
				found = found || bytes.Contains(text, []byte("\nfunc "+name+"(b *testing.B)"))
			}
		}
		if !found {
			t.Errorf("%s has no %s", l.pkg, name)
		}
	}
	for _, bad := range []string{"./engine BenchmarkRead", "./engine BenchmarkRead 1s 2"} {
		if _, err := parseList(bad, regexp.MustCompile(".")); err == nil {
			t.Errorf("%q is taken for a line", bad)
		}
	}
	if _, err := parseList(listText, regexp.MustCompile("no such")); err == nil {
		t.Error("a list of nothing")
	}
}

func TestParseFigures(t *testing.T) {
	figures, err := parseFigures(`goos: linux
BenchmarkRead/files-2         	  200000	      1530 ns/op	       0 B/op
BenchmarkScan/run=4/forward/10-2 	 1000	      12.5 ns/op	 1.2 ns/doc
BenchmarkSplit 	 3	  7 MB/s
PASS`)
	if err != nil || len(figures) != 2 || figures["Read/files"] != 1530 || figures["Scan/run=4/forward/10"] != 12.5 {
		t.Errorf("%v, %v", figures, err)
	}
}

// TestInterval: the interval holds the true median in 95 of 100 cases or more, and
// is the one that tables of the binomial distribution give.
func TestInterval(t *testing.T) {
	for _, want := range []struct{ n, low, high int }{{5, -1, 0}, {6, 0, 5}, {8, 0, 7}, {9, 1, 7}, {12, 2, 9}, {20, 5, 14}} {
		values := make([]float64, want.n)
		for i := range values {
			values[i] = float64(i)
		}
		low, high, ok := interval(values)
		if ok != (want.low >= 0) || ok && (low != float64(want.low) || high != float64(want.high)) {
			t.Errorf("%d values: %v to %v, %v", want.n, low, high, ok)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const trials = 20_000
	held := 0
	for range trials {
		values := make([]float64, 10)
		for i := range values {
			values[i] = rng.ExpFloat64() // its median is ln 2
		}
		if low, high, _ := interval(values); low <= 0.6931 && 0.6932 <= high {
			held++
		}
	}
	if held < trials*96/100 { // 97.9 %
		t.Errorf("the interval held the median in %d of %d trials", held, trials)
	}
}

// TestVerdicts: a build that loses a tenth is slower, noise is not.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		rounds  int
		loss    float64
		noise   float64
		verdict string
	}{{"same", 10, 0, 0.01, ""}, {"slower", 10, 0.1, 0.01, "slower"}, {"faster", 10, -0.1, 0.01, ""}, {"noise", 10, 0, 0.2, "unclear"}, {"few", 1, 0.1, 0, "slower"}} {
		tab := newTable(0.97)
		for i := range c.rounds {
			swing := 1 + c.noise*float64(i%2*2-1)
			tab.add("./engine", map[string]float64{"Read": 1000 * swing}, map[string]float64{"Read": 1000 * (1 + c.loss), "New": 1})
		}
		var out bytes.Buffer
		slower := tab.print(&out)
		if (slower == 1) != (c.verdict == "slower") || strings.Contains(out.String(), "unclear") != (c.verdict == "unclear") || !strings.Contains(out.String(), "only one of the builds has engine New") {
			t.Errorf("%s: %d slower\n%s", c.name, slower, &out)
		}
	}
}

// TestFailedBuild: a build that fails leaves no checkout in the repository.
func TestFailedBuild(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) string {
		out, err := command(t.Context(), "", "git", args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	git("init", "--quiet")
	git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--allow-empty", "-m", "empty")
	before := git("worktree", "list")
	b := &build{dir: filepath.Join(t.TempDir(), "old")}
	if err := b.make(t.Context(), "HEAD", []string{"./wal"}); err == nil {
		t.Error("a package that is not there was built")
	}
	if now := git("worktree", "list"); now != before {
		t.Errorf("worktrees:\n%sat first:\n%s", now, before)
	}
}
