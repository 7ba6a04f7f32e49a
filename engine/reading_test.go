package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadingTheSource: the page names functions that exist, at most ten on a way.
func TestReadingTheSource(t *testing.T) {
	const page = "../docs/reading-the-source.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]map[string]bool)
	stop := regexp.MustCompile("^[0-9]+\\. `([^`]+\\.go)` `([^`]+)`")
	ways, stops := 0, 0
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "## ") {
			ways, stops = ways+1, 0
		}
		if line == "" || line[0] < '0' || line[0] > '9' {
			continue
		}
		m := stop.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%s:%d: a stop is a number, a file and a function: %s", page, i+1, line)
			continue
		}
		if stops++; stops > 10 {
			t.Errorf("%s:%d: stop %d of a way", page, i+1, stops)
		}
		if files[m[1]] == nil {
			if files[m[1]], err = functionsOf(filepath.Join("..", m[1])); err != nil {
				t.Fatalf("%s:%d: %v", page, i+1, err)
			}
		}
		if !files[m[1]][m[2]] {
			t.Errorf("%s:%d: %s has no function %s", page, i+1, m[1], m[2])
		}
	}
	if ways != 7 {
		t.Errorf("%d ways", ways)
	}
}

// functionsOf returns the names of the functions of a file, those of methods behind
// the name of their type and a point.
func functionsOf(file string) (map[string]bool, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return nil, err
	}
	found := make(map[string]bool)
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			of := fn.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if id, ok := of.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		found[name] = true
	}
	return found, nil
}
