// Package docs holds the pages of the repository to what they say: it runs their
// commands, type-checks their Go, and looks up their links and names.
package docs

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/doctest"
)

const root = "../.."

// notRunMost is how many blocks of commands may be marked as not run. It is here to be
// lowered.
const notRunMost = 27

var onePage = flag.String("page", "", "run the commands of this page only, such as docs/start.md")

// pages gives the Markdown pages of the repository by their names.
var pages = sync.OnceValues(func() (map[string]*doctest.Page, error) {
	all := make(map[string]*doctest.Page)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := entry.Name(); entry.IsDir() && len(base) > 2 && base[0] == '.' && base != ".github" {
			return filepath.SkipDir
		}
		if entry.IsDir() || path.Ext(entry.Name()) != ".md" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		all[rel], err = doctest.Read(root, rel)
		return err
	})
	return all, err
})

func allPages(t *testing.T) map[string]*doctest.Page {
	t.Helper()
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("%d pages found", len(all))
	}
	return all
}

// names gives the names of pages in order.
func names(all map[string]*doctest.Page) []string {
	var sorted []string
	for name := range all {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

// TestLinks: links lead somewhere, and the index names every page in docs.
func TestLinks(t *testing.T) {
	all := allPages(t)
	listed := make(map[string]bool)
	for name, page := range all {
		for _, err := range page.BrokenLinks(root, all) {
			t.Error(err)
		}
		if name == "docs/README.md" {
			for _, link := range page.Links {
				target, _, _ := strings.Cut(link.Text, "#")
				listed[path.Join("docs", target)] = true
			}
		}
	}
	for name := range all {
		if path.Dir(name) == "docs" && name != "docs/README.md" && !listed[name] {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// A source is what the Go files of the repository declare and mention.
type source struct {
	tests  map[string]map[string]bool // directory -> its tests, benchmarks, fuzz targets and examples
	idents map[string]bool            // names of the top level
	parts  map[string]bool            // names of fields and methods
}

var repository = sync.OnceValues(func() (*source, error) {
	s := &source{tests: make(map[string]map[string]bool), idents: make(map[string]bool), parts: make(map[string]bool)}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := entry.Name(); entry.IsDir() && len(base) > 2 && base[0] == '.' {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		ast.Inspect(file, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok {
				for _, ident := range field.Names {
					s.parts[ident.Name] = true
				}
			}
			return true
		})
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				s.idents[d.Name.Name] = true
				if strings.HasSuffix(name, "_test.go") && d.Recv == nil && testName.MatchString(d.Name.Name) {
					if s.tests[dir] == nil {
						s.tests[dir] = make(map[string]bool)
					}
					s.tests[dir][d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						s.idents[spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, ident := range spec.Names {
							s.idents[ident.Name] = true
						}
					}
				}
			}
		}
		return nil
	})
	return s, err
})

// hasTest tells whether a test of any package has the name.
func (s *source) hasTest(name string) bool {
	for _, tests := range s.tests {
		if tests[name] {
			return true
		}
	}
	return false
}

var (
	testName   = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)([A-Z_]\w*)?$`)
	dottedName = regexp.MustCompile(`\b[A-Za-z]\w*(?:\.[A-Z]\w*)+`)
	errorName  = regexp.MustCompile(`\bErr[A-Z]\w*`)
	capitals   = regexp.MustCompile(`^\*?([A-Z][a-z]+[A-Z]\w*)(?:\(.*\))?$`)
	filePath   = regexp.MustCompile(`^\.?[a-z][\w-]*(?:/[\w.-]+)+/?$`)
	topLevel   = regexp.MustCompile(`^[^/]+/`)
)

// TestNames: tests, errors, fields, functions and files that a page names exist.
func TestNames(t *testing.T) {
	declared, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	checker := newChecker(t)
	engine, err := checker.Package("engine")
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for page, p := range allPages(t) {
		foreign := strings.HasPrefix(page, "docs/from-") // names other stores beside ours
		for _, code := range p.Codes {
			at := fmt.Sprintf("%s:%d", page, code.Line)
			if testName.MatchString(code.Text) && !declared.hasTest(code.Text) && !declared.idents[code.Text] {
				t.Errorf("%s: there is no %s", at, code.Text)
			}
			if m := capitals.FindStringSubmatch(code.Text); m != nil && !foreign && !testName.MatchString(m[1]) {
				names++
				if !declared.idents[m[1]] && !declared.parts[m[1]] && !declared.hasTest("Benchmark"+m[1]) {
					t.Errorf("%s: nothing is called %s", at, m[1])
				}
			}
			for _, name := range errorName.FindAllString(code.Text, -1) {
				names++
				if !declared.idents[name] {
					t.Errorf("%s: there is no %s", at, name)
				}
			}
			for _, name := range dottedName.FindAllString(code.Text, -1) {
				names++
				if foreign && !strings.HasPrefix(name, "engine.") {
					continue
				}
				if missing := checker.Missing(engine, name); missing != "" {
					t.Errorf("%s: %s: there is no %s", at, name, missing)
				}
			}
			if name := code.Text; filePath.MatchString(name) {
				if _, err := os.Stat(filepath.Join(root, topLevel.FindString(name))); err != nil {
					continue // not of this repository
				}
				if _, err := os.Stat(filepath.Join(root, name)); err != nil {
					t.Errorf("%s: there is no %s", at, name)
				}
			}
		}
	}
	if names < 300 {
		t.Errorf("%d names found", names)
	}
}

// TestRunbook: the runbook says of every error of the engine what to do.
func TestRunbook(t *testing.T) {
	checker := newChecker(t)
	engine, err := checker.Package("engine")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, code := range allPages(t)["docs/runbook.md"].Codes {
		named[code.Text] = true
	}
	found := 0
	for _, name := range engine.Scope().Names() {
		if !errorName.MatchString(name) {
			continue
		}
		found++
		if !named[name] {
			t.Errorf("docs/runbook.md does not name %s", name)
		}
	}
	if found < 35 {
		t.Errorf("%d errors found", found)
	}
}

var (
	stepsOf  = regexp.MustCompile("[Ss]teps of\\s+`([a-z/]+\\.go)`")
	docStep  = regexp.MustCompile(`(?m)^(\d+)\. `)
	codeStep = regexp.MustCompile(`(?m)^\s*//\s+(\d+)\. `)
)

// TestSteps: a protocol on the pages about crashes has as many steps as the comment in the
// file that the page names.
func TestSteps(t *testing.T) {
	var pages []byte
	for _, name := range []string{"docs/crash-safety.md", "docs/crash-safety-of-copies.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, text...)
	}
	protocols := 0
	for section := range strings.SplitSeq(string(pages), "\n## ") {
		m := stepsOf.FindStringSubmatch(section)
		if m == nil {
			continue
		}
		protocols++
		title, _, _ := strings.Cut(section, "\n")
		code, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m[1])))
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		if page, source := rising(docStep, section), rising(codeStep, string(code)); page == 0 || page != source {
			t.Errorf("%s: the page has %d steps, the comment in %s %d", title, page, m[1], source)
		}
	}
	if protocols < 9 {
		t.Errorf("%d protocols found", protocols)
	}
}

// rising counts the numbers 1, 2, 3 … with which lines begin, up to the first that does
// not follow.
func rising(number *regexp.Regexp, text string) int {
	n := 0
	for _, m := range number.FindAllStringSubmatch(text, -1) {
		if m[1] != fmt.Sprint(n+1) {
			break
		}
		n++
	}
	return n
}

// newChecker makes a checker that knows what pages use.
func newChecker(t *testing.T) *doctest.Checker {
	t.Helper()
	checker, err := doctest.NewChecker(root, "./engine", "./metrics", "./segment", "./wal", "./partmap", "./restore", "./splitter",
		"context", "encoding/json", "errors", "fmt", "io", "log", "log/slog", "maps", "math", "net/http", "os", "os/signal",
		"path/filepath", "slices", "strings", "sync", "syscall", "testing", "time")
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

// TestGo: the Go of the pages compiles.
func TestGo(t *testing.T) {
	checker := newChecker(t)
	checker.Prelude = "var (ctx context.Context; db *engine.DB; c *engine.Container; dir string; doc []byte; key engine.PartitionKey)"
	blocks := 0
	for name, p := range allPages(t) {
		if nested(path.Dir(name)) {
			continue // its module compiles with other packages
		}
		for _, err := range checker.Check(p) {
			t.Error(err)
		}
		for _, b := range p.Blocks {
			if b.Lang == "go" {
				blocks++
			}
		}
	}
	if blocks < 10 {
		t.Errorf("%d blocks of Go found", blocks)
	}
}

// nested tells whether a directory belongs to a module of its own.
func nested(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// TestJSON: the JSON of the pages is JSON.
func TestJSON(t *testing.T) {
	for page, p := range allPages(t) {
		for _, b := range p.Blocks {
			if b.Lang != "json" || json.Valid([]byte(b.Text)) {
				continue
			}
			for line := range strings.Lines(b.Text) {
				if !json.Valid([]byte(line)) {
					t.Errorf("%s:%d: not JSON: %s", page, b.Line, line)
				}
			}
		}
	}
}

// program finds the program that a command begins with, under the names that pages use.
var program = regexp.MustCompile(`^\s*(?:go run (?:-\S+ )*\./(?:cmd|bench|examples)/)?([a-z]+)\b`)

// TestLanguages: a block that has commands says so, so that none is left out.
func TestLanguages(t *testing.T) {
	for page, p := range allPages(t) {
		for _, b := range p.Blocks {
			switch b.Lang {
			case "console", "sh", "go", "json", "sql", "yaml", "promql":
			case "", "text":
				for line := range strings.Lines(b.Text) {
					if m := program.FindStringSubmatch(strings.TrimPrefix(line, "$ ")); m != nil && programs[m[1]] {
						t.Errorf("%s:%d: the block has commands, but its language is neither console nor sh: %s", page, b.Line, line)
						break
					}
				}
			default:
				t.Errorf("%s:%d: the language %q is unknown", page, b.Line, b.Lang)
			}
		}
	}
}

var programs = map[string]bool{"pbench": true, "pinspect": true, "lab": true, "pairs": true, "go": true, "curl": true, "catalogue": true, "auditlog": true, "server": true}

// TestCommands runs the commands of the pages, in a directory that looks like a clone, and
// compares what they print with what the page shows.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs that the race detector does not watch")
	}
	if runtime.GOOS == "windows" {
		t.Skip("pages show commands for a Unix shell")
	}
	bin := build(t)
	all := allPages(t)
	declared, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	notRun := 0
	for _, name := range names(all) {
		page := all[name]
		var run []doctest.Block
		for _, b := range page.Blocks {
			commands := b.Lang == "console" || b.Lang == "sh"
			if reason := strings.TrimSpace(b.Notes["not run"]); reason != "" && commands {
				notRun++
				t.Logf("not run: %s:%d: %s", name, b.Line, reason)
				if reason == "" {
					t.Errorf("%s:%d: no reason is given", name, b.Line)
				}
				for _, step := range b.Steps() {
					if err := exists(step.Command, bin, declared); err != nil {
						t.Errorf("%s:%d: %v", name, step.Line, err)
					}
				}
				continue
			}
			if test := strings.TrimSpace(b.Notes["run by"]); test != "" {
				if !declared.hasTest(test) {
					t.Errorf("%s:%d: there is no test %s", name, b.Line, test)
				}
				continue
			}
			if commands || b.Notes["file"] != "" {
				run = append(run, b)
			}
		}
		if len(run) == 0 || *onePage != "" && *onePage != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runPage(t, bin, name, run)
		})
	}
	if notRun > notRunMost {
		t.Errorf("%d blocks of commands are not run, at most %d may be", notRun, notRunMost)
	}
}

// runPage runs blocks in a directory that has what a clone has.
func runPage(t *testing.T, bin, name string, blocks []doctest.Block) {
	dir := t.TempDir()
	clone, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(clone)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name()[0] == '.' {
			continue
		}
		if err := os.Symlink(filepath.Join(clone, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	shell := &doctest.Shell{Dir: dir, Env: append(os.Environ(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "CLONE="+clone, "REAL_GO="+realGo(t), "LC_ALL=C.UTF-8", "TZ=UTC")}
	for _, b := range blocks {
		if err := shell.Run(context.Background(), name, b); err != nil {
			t.Fatal(err)
		}
	}
}

func realGo(t *testing.T) string {
	t.Helper()
	name, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// goProgram stands for go in pages: `go run` of a program of the repository runs the one
// that was built, and in a module that a page makes the real go runs, without a network.
const goProgram = `#!/bin/sh
case "$1 $2" in
"run ./cmd/"* | "run ./bench/"* | "run ./examples/"*)
	program=${2##*/}
	shift 2
	exec "$program" "$@"
	;;
"mod init")
	exec "$REAL_GO" "$@"
	;;
"get github.com/cleavestore/cleave"*)
	"$REAL_GO" mod edit -require=github.com/cleavestore/cleave@v0.0.0 -replace=github.com/cleavestore/cleave="$CLONE" &&
	sed -n '/^require/,/^)/p' "$CLONE/go.mod" >>go.mod &&
	cp "$CLONE/go.sum" go.sum
	exit
	;;
esac
if [ -f go.mod ] && [ ! -L go.mod ]; then
	exec "$REAL_GO" "$@"
fi
echo "a page runs go $*: the runner knows no such command, mark the block as not run" >&2
exit 2
`

// build builds the programs that pages run.
func build(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-o", bin+string(os.PathSeparator), "./cmd/...", "./bench/lab", "./bench/pairs", "./examples/...")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(goProgram), 0o777); err != nil {
		t.Fatal(err)
	}
	return bin
}

var (
	flagWord  = regexp.MustCompile(`(?:^|\s|\[)(--[a-z][a-z-]*)`)
	goTest    = regexp.MustCompile(`^go test\b`)
	separator = regexp.MustCompile(`\s(?:\||&&|;)\s|\n`)
	comment   = regexp.MustCompile(`(?m)\s#.*$`)
)

// exists tells what is wrong with a command that is not run: a command of our programs
// that does not exist, a flag that it does not have, a package or a test that is not there.
func exists(command, bin string, declared *source) error {
	for _, part := range separator.Split(comment.ReplaceAllString(strings.ReplaceAll(command, "\\\n", " "), ""), -1) {
		part = strings.TrimSpace(part)
		words := strings.Fields(part)
		m := program.FindStringSubmatch(part)
		switch {
		case m == nil:
		case goTest.MatchString(part):
			if err := existsTest(words, declared); err != nil {
				return err
			}
		case m[1] == "pbench" || m[1] == "pinspect" || m[1] == "lab":
			if err := existsFlags(part, m[0], m[1], bin); err != nil {
				return err
			}
		}
	}
	return nil
}

// helps has the help texts that were asked for, by program and command.
var helps sync.Map

func existsFlags(part, head, name, bin string) error {
	var words []string
	text, err := help(bin, name, nil)
	for _, arg := range strings.Fields(part[len(head):]) {
		if err != nil || arg[0] == '-' || !strings.Contains(text, "<command>") {
			break
		}
		words = append(words, arg)
		text, err = help(bin, name, words)
	}
	if err != nil {
		return err
	}
	for _, m := range flagWord.FindAllStringSubmatch(part[len(head):], -1) {
		flag := strings.TrimPrefix(strings.TrimPrefix(m[1], "--"), "no-")
		if !regexp.MustCompile(`--(\[no-\]|no-)?` + regexp.QuoteMeta(flag) + `\b`).MatchString(text) {
			return fmt.Errorf("%s %s has no flag %s", name, strings.Join(words, " "), m[1])
		}
	}
	return nil
}

// help gives the help text of a command.
func help(bin, name string, words []string) (string, error) {
	key := name + " " + strings.Join(words, " ")
	if text, known := helps.Load(key); known {
		return text.(string), nil
	}
	out, err := exec.Command(filepath.Join(bin, name), append(slices.Clone(words), "--help")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %v\n%s", key, err, out)
	}
	helps.Store(key, string(out))
	return string(out), nil
}

func existsTest(words []string, declared *source) error {
	var dirs []string
	var patterns []string
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "./"):
			dirs = append(dirs, strings.TrimSuffix(word[2:], "/"))
		case (word == "-run" || word == "-bench" || word == "-fuzz") && i+1 < len(words):
			pattern := strings.Trim(words[i+1], `'"`)
			first, _, _ := strings.Cut(pattern, "/")
			if pattern != "^$" && pattern != "xxx" && pattern != "NAME" {
				patterns = append(patterns, first)
			}
		}
	}
	for _, dir := range dirs {
		if dir == "..." || strings.HasSuffix(dir, "/...") {
			return nil
		}
		if declared.tests[dir] == nil {
			return fmt.Errorf("./%s has no tests", dir)
		}
		for _, pattern := range patterns {
			expr, err := regexp.Compile(pattern)
			if err != nil {
				return err
			}
			found := false
			for test := range declared.tests[dir] {
				found = found || expr.MatchString(test)
			}
			if !found {
				return fmt.Errorf("./%s has no test that %s matches", dir, pattern)
			}
		}
	}
	return nil
}
