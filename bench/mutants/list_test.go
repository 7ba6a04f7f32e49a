package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestList keeps the list true while the source moves on: each mutant applies,
// the result is still Go, and each test that is named exists.
func TestList(t *testing.T) {
	all, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Errorf("%d mutants, at least 60 are promised", len(all))
	}
	root := filepath.Join("..", "..")
	seen := make(map[string]bool)
	for _, m := range all {
		if seen[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		seen[m.name] = true
		mutated, err := m.apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, mutated, parser.SkipObjectResolution); err != nil {
			t.Errorf("mutant %q: %v", m.name, err)
		}
		for _, tests := range m.tests {
			for _, name := range strings.Split(tests.run, "|") {
				if !hasTest(t, filepath.Join(root, tests.pkg), strings.Trim(name, "^$")) {
					t.Errorf("mutant %q: %s has no test %s", m.name, tests.pkg, name)
				}
			}
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ = strings.Cut(name, "/")
	wanted := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\w*\(`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if wanted.Match(source) {
			return true
		}
	}
	return false
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"before the first":  "why: x\n",
		"odd tests":         "== a\nwhy: x\nfile: f\ncaught by: ./wal\n-x\n",
		"no original":       "== a\nwhy: x\nfile: f\ncaught by: ./wal T\n+x\n",
		"no line of a list": "== a\nbecause\n",
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestApply(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f.go"), []byte("package f\n\nvar a = 1\nvar b = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := mutant{name: "m", file: "f.go", original: "var a = 1\n", replaced: "var a = 3\n"}
	got, err := m.apply(root)
	if err != nil || string(got) != "package f\n\nvar a = 3\nvar b = 2\n" {
		t.Fatalf("%q, %v", got, err)
	}
	m.original = "var c = 1\n"
	if _, err := m.apply(root); err == nil {
		t.Fatal("an original that is not there is no error")
	}
}

func TestUnion(t *testing.T) {
	got := union([]mutant{
		{tests: []target{{"./wal", "A$"}, {"./engine", "B"}}},
		{tests: []target{{"./wal", "C|D"}}},
		{tests: []target{{"./wal", "A$"}}},
	})
	if len(got) != 2 || got[0] != (target{"./wal", "A$|C|D"}) || got[1] != (target{"./engine", "B"}) {
		t.Errorf("%v", got)
	}
}

// TestJudged: a failed test catches a mutant, the end of the time does not.
func TestJudged(t *testing.T) {
	for out, want := range map[string]verdict{
		"--- FAIL: TestA (0.00s)\n    a_test.go:1: x\npanic: test timed out after 1s": {"caught", "TestA", true},
		"panic: runtime error: index out of range":                                    {"caught", "panic: runtime error: index out of range", true},
		"fatal error: all goroutines are asleep - deadlock!":                          {"caught", "fatal error: all goroutines are asleep - deadlock!", true},
		"panic: test timed out after 1s\nrunning tests:\n\tTestA (1s)":                {"hangs", "panic: test timed out after 1s", false},
		"FAIL": {"caught", "./wal T", true},
	} {
		if got := judged("caught", out, "./wal T"); got != want {
			t.Errorf("%q: %+v, want %+v", out, got, want)
		}
	}
}

// TestDocument: the page about tests lists all mutants, no other, and says how many there are.
func TestDocument(t *testing.T) {
	all, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n| mutant | without it | caught by |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if want := fmt.Sprintf("The list has %d mutants.", len(all)); !found || !strings.Contains(string(page), want) {
		t.Errorf("the page has a table: %t; it does not say: %s", found, want)
	}
	for _, m := range all {
		if row := "| `" + m.name + "` |"; !strings.Contains(table, row) {
			t.Errorf("the page does not list %s", m.name)
		}
	}
	if rows := strings.Count(table, "\n| `"); rows != len(all) {
		t.Errorf("the page lists %d mutants, there are %d", rows, len(all))
	}
}
