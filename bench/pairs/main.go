package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cleavestore/cleave/bench/internal/program"
)

func main() { program.Main("pairs", run) }

// run compares and returns how many rows are slower.
func run(ctx context.Context) (slower int, err error) {
	var (
		rounds = flag.Int("rounds", 8, "how often each benchmark runs with each build")
		lines  = flag.String("run", ".", "only lines of the list that match this `regexp`, as PACKAGE BENCHMARK")
		limit  = flag.Float64("limit", 0.97, "the `ratio` of speeds below which a row is slower")
		docs   = flag.Int("docs", 1_000_000, "how many documents queries are asked of")
	)
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "pairs [flags] OLD [NEW]: benchmarks of two commits in turns; without NEW, of OLD and the work tree")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 1 || flag.NArg() > 2 || *rounds < 1 {
		flag.Usage()
		return 0, errors.New("say which commit to compare with, and at least one round")
	}
	wanted, err := regexp.Compile(*lines)
	if err != nil {
		return 0, err
	}
	list, err := parseList(listText, wanted)
	if err != nil {
		return 0, err
	}
	scratch, err := os.MkdirTemp("", "pairs-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	var builds [2]*build
	for i, name := range []string{"old", "new"} {
		b := &build{dir: filepath.Join(scratch, name), docs: *docs}
		if err = b.make(ctx, flag.Arg(i), packagesOf(list)); err != nil {
			return 0, fmt.Errorf("%s build: %w", name, err)
		}
		defer b.remove()
		builds[i] = b
	}
	t := newTable(*limit)
	begin := time.Now()
	for round := range *rounds {
		for i, l := range list {
			progress("round %d of %d, %s %s, %v so far", round+1, *rounds, l.pkg, l.benchmark, time.Since(begin).Round(time.Second))
			var figures [2]map[string]float64
			for turn := range 2 {
				which := (round + i + turn) % 2
				if figures[which], err = builds[which].run(ctx, l); err != nil {
					progress("")
					return 0, err
				}
			}
			t.add(l.pkg, figures[0], figures[1])
		}
	}
	progress("")
	return t.print(os.Stdout), nil
}

// progress shows a line on a terminal, in the place of the one before.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "\r\x1b[K"+format, args...)
}

//go:embed list.txt
var listText string

// A line of the list: a benchmark, with those below it.
type line struct {
	pkg, benchmark string
	time           string // for -benchtime
}

// parseList returns the lines of the list that are wanted.
func parseList(text string, wanted *regexp.Regexp) (list []line, err error) {
	for row := range strings.Lines(text) {
		f := strings.Fields(row)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) != 3 {
			return nil, fmt.Errorf("list.txt: %q has %d fields, not a package, a benchmark and a time", row, len(f))
		}
		if wanted.MatchString(f[0] + " " + f[1]) {
			list = append(list, line{pkg: f[0], benchmark: f[1], time: f[2]})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no line of the list matches %q", wanted)
	}
	return list, nil
}

// packagesOf returns the packages of a list, each once.
func packagesOf(list []line) (packages []string) {
	for i, l := range list {
		if i == 0 || l.pkg != list[i-1].pkg {
			packages = append(packages, l.pkg)
		}
	}
	return packages
}

// A build is the test binaries of one state of the repository.
type build struct {
	dir      string // of the binaries, and of what benchmarks keep
	worktree string // of the commit; nonempty: to be removed
	docs     int
}

// make compiles the tests of packages: of a commit, or of the work tree (""). If it fails, no checkout is left.
func (b *build) make(ctx context.Context, rev string, packages []string) (err error) {
	defer func() {
		if err != nil {
			b.remove()
		}
	}()
	if err = os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	root, err := command(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root = strings.TrimSpace(root)
	if rev != "" {
		tree := filepath.Join(b.dir, "tree")
		if _, err = command(ctx, root, "git", "worktree", "add", "--quiet", "--detach", tree, rev); err != nil {
			return err
		}
		root, b.worktree = tree, tree
	}
	for _, pkg := range packages {
		if _, err = command(ctx, root, "go", "test", "-c", "-trimpath", "-o", b.binary(pkg), pkg); err != nil {
			return err
		}
	}
	return nil
}

// remove takes the checkout of the commit away.
func (b *build) remove() {
	if b.worktree != "" {
		if _, err := command(context.Background(), "", "git", "worktree", "remove", "--force", b.worktree); err != nil {
			fmt.Fprintln(os.Stderr, "pairs:", err)
		}
	}
}

func (b *build) binary(pkg string) string {
	return filepath.Join(b.dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
}

// run runs a benchmark and returns its figures by name, in ns.
func (b *build) run(ctx context.Context, l line) (map[string]float64, error) {
	parts := strings.Split(l.benchmark, "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	cmd := exec.CommandContext(ctx, b.binary(l.pkg), "-test.run=^$", "-test.bench="+strings.Join(parts, "/"), "-test.benchtime="+l.time)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("CLEAVE_QUERY_DOCS=%d", b.docs), "CLEAVE_QUERY_DIR="+filepath.Join(b.dir, "queries"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", l.pkg, l.benchmark, err, out)
	}
	return parseFigures(string(out))
}

// command runs a command and returns what it printed.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}
