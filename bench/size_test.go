// Package bench judges the repository as a whole.
package bench

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packageLines is how many lines of production code a package has at most, Go and
// assembly, so that a reader can hold one in the head.
const packageLines = 6_000

// largerPackages have bounds of their own, to be lowered as rooms move out of them.
var largerPackages = map[string]int{"engine": 12_862}

// TestPackageSize: no package outgrows its bound, and no bound its package.
func TestPackageSize(t *testing.T) {
	lines := make(map[string]int)
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := entry.Name(); entry.IsDir() {
			if base == "testdata" || len(base) > 2 && base[0] == '.' {
				return filepath.SkipDir
			}
			return nil
		}
		production := filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") || filepath.Ext(name) == ".s"
		if !production {
			return nil
		}
		text, err := os.ReadFile(name)
		dir, _ := filepath.Rel("..", filepath.Dir(name))
		lines[filepath.ToSlash(dir)] += bytes.Count(text, []byte("\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 30 {
		t.Fatalf("%d packages found", len(lines))
	}
	for dir, n := range lines {
		most := packageLines
		if own, ok := largerPackages[dir]; ok {
			most = own
		}
		if n > most {
			t.Errorf("%s has %d lines of production code, at most %d: move a room out of it", dir, n, most)
		}
	}
	for dir := range largerPackages {
		if n := lines[dir]; n <= packageLines {
			t.Errorf("%s has %d lines: it needs no bound of its own any more", dir, n)
		}
	}
}
