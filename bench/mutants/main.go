package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/bench/internal/program"
)

func main() { program.Main("mutants", run) }

// run tries the mutants and returns how many the tests did not notice.
func run(ctx context.Context) (survived int, err error) {
	var (
		names   = flag.String("run", ".", "only mutants whose name matches this `regexp`")
		check   = flag.Bool("check", false, "only compile the mutants")
		timeout = flag.Duration("timeout", 5*time.Minute, "how long the tests of one package may take: past it they hang, which catches nothing")
		named   = flag.Bool("named", false, "only the tests that are named: what they pass is a survivor, the quick suite is not asked")
		asJSON  = flag.Bool("json", false, "print a line of JSON for each mutant")
	)
	flag.Parse()
	wanted, err := regexp.Compile(*names)
	if err != nil {
		return 0, err
	}
	all, err := parse(list)
	if err != nil {
		return 0, err
	}
	root, err := output(ctx, "", "go", "env", "GOMOD")
	if err != nil {
		return 0, err
	}
	t := trial{root: filepath.Dir(root), timeout: *timeout, check: *check, named: *named}
	if t.scratch, err = os.MkdirTemp("", "mutants-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(t.scratch)

	all = slices.DeleteFunc(all, func(m mutant) bool { return !wanted.MatchString(m.name) })
	if !*check {
		for _, tests := range union(all) {
			if err := t.passes(ctx, tests); err != nil {
				return 0, err
			}
		}
	}
	for i := range all {
		m := &all[i]
		begin := time.Now()
		v, err := t.try(ctx, m)
		if err != nil {
			return survived, err
		}
		if !v.noticed {
			survived++
		}
		if *asJSON {
			line, err := json.Marshal(map[string]any{"type": "mutant", "name": m.name, "file": m.file, "why": m.why,
				"verdict": v.what, "noticed": v.noticed, "by": v.by, "seconds": time.Since(begin).Seconds()})
			if err != nil {
				return survived, err
			}
			fmt.Println(string(line))
			continue
		}
		fmt.Printf("%-40s %-16s %-48s %5.0f s\n", m.name, v.what, v.by, time.Since(begin).Seconds())
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("no mutant's name matches %q", *names)
	}
	if !*asJSON {
		fmt.Printf("%d mutants, %d not noticed\n", len(all), survived)
	}
	return survived, nil
}

// A trial runs tests against mutants.
type trial struct {
	root    string
	scratch string
	timeout time.Duration
	check   bool
	named   bool
}

// A verdict says what became of a mutant.
type verdict struct {
	what    string
	by      string // the test that failed, or what the compiler said
	noticed bool
}

// quickSuite is what a mutant must survive to be called a survivor.
var quickSuite = []string{"./wal", "./segment", "./index", "./internal/...", "./engine"}

// union returns all tests that are named for mutants, one target a package.
func union(all []mutant) (tests []target) {
	for _, m := range all {
		for _, one := range m.tests {
			i := slices.IndexFunc(tests, func(t target) bool { return t.pkg == one.pkg })
			if i < 0 {
				tests = append(tests, one)
			} else if !slices.Contains(strings.Split(tests[i].run, "|"), one.run) {
				tests[i].run += "|" + one.run
			}
		}
	}
	return tests
}

// passes runs tests without a mutant: what fails by itself catches nothing. The go
// command knows what has passed before.
func (t *trial) passes(ctx context.Context, tests target) error {
	out, err := output(ctx, t.root, "go", t.args("-short", "-run", "^("+tests.run+")", tests.pkg)...)
	if err != nil {
		return fmt.Errorf("without a mutant %s of %s fails: %w", failed(out, "a test"), tests.pkg, errors.Join(err, ctx.Err()))
	}
	return nil
}

// try runs the tests that are named for the mutant, then the quick suite.
func (t *trial) try(ctx context.Context, m *mutant) (verdict, error) {
	mutated, err := m.apply(t.root)
	if err != nil {
		return verdict{}, err
	}
	file := filepath.Join(t.scratch, "mutated.go")
	if err = os.WriteFile(file, mutated, 0o600); err != nil {
		return verdict{}, err
	}
	replace := map[string]map[string]string{"Replace": {filepath.Join(t.root, filepath.FromSlash(m.file)): file}}
	overlay, err := json.Marshal(replace)
	if err != nil {
		return verdict{}, err
	}
	overlayFile := filepath.Join(t.scratch, "overlay.json")
	if err = os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return verdict{}, err
	}
	compiles := func() (verdict, error) {
		out, err := output(ctx, t.root, "go", "build", "-overlay", overlayFile, "./"+path.Dir(m.file))
		if err != nil {
			return verdict{what: "does not compile", by: firstLine(out)}, ctx.Err()
		}
		return verdict{what: "compiles", noticed: true}, nil
	}
	if t.check {
		return compiles()
	}
	for _, tests := range m.tests {
		out, err := t.test(ctx, overlayFile, "-short", "-run", "^("+tests.run+")", tests.pkg)
		if strings.Contains(out, "[build failed]") {
			if v, compileErr := compiles(); compileErr != nil || !v.noticed {
				return v, compileErr
			}
			return verdict{}, fmt.Errorf("the tests of %s do not compile", tests.pkg)
		}
		if err != nil {
			return judged("caught", out, tests.String()), ctx.Err()
		}
		if strings.Contains(out, "no tests to run") {
			return verdict{}, fmt.Errorf("mutant %q: %s runs no test", m.name, tests)
		}
	}
	if t.named {
		return verdict{what: "not caught", by: "the tests that are named pass"}, nil
	}
	if out, err := t.test(ctx, overlayFile, append([]string{"-short"}, quickSuite...)...); err != nil {
		return judged("caught elsewhere", out, "the quick suite"), ctx.Err()
	}
	return verdict{what: "survived"}, nil
}

// judged is the verdict on a mutant with which tests did not pass: what, by the test
// that failed, unless none did before the time was up.
func judged(what, out, otherwise string) verdict {
	by := failed(out, otherwise)
	if strings.HasPrefix(by, timedOut) {
		return verdict{what: "hangs", by: by}
	}
	return verdict{what: what, by: by, noticed: true}
}

func (t *trial) test(ctx context.Context, overlay string, args ...string) (string, error) {
	return output(ctx, t.root, "go", t.args(append([]string{"-overlay", overlay}, args...)...)...)
}

// args are the arguments of the go command for a test.
func (t *trial) args(more ...string) []string {
	return append([]string{"test", "-vet=off", "-failfast", "-timeout", t.timeout.String()}, more...)
}

// output runs a command in a directory and returns what it printed.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

const timedOut = "panic: test timed out"

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(fatal error: .*|panic: .*)`)

// failed returns the name of the first test that failed.
func failed(out, otherwise string) string {
	m := failure.FindStringSubmatch(out)
	switch {
	case m == nil:
		return otherwise
	case m[1] != "":
		return m[1]
	default:
		return m[2]
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
