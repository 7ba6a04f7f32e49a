package doctest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// A Checker type-checks Go. It knows the packages that it was made with and what they import.
type Checker struct {
	Prelude string // Go declarations that all pages may use

	fset     *token.FileSet
	importer types.Importer
	exports  map[string]string // files with export data
	byName   map[string]string // name of a package -> its path
}

// NewChecker makes a checker for code that imports packages: paths, as `go list` takes
// them in the directory dir. They are built if they are not.
func NewChecker(dir string, packages ...string) (*Checker, error) {
	c := &Checker{fset: token.NewFileSet(), exports: make(map[string]string), byName: make(map[string]string)}
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Name}}\t{{.Export}}\t{{.DepOnly}}"}, packages...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		c.exports[fields[0]] = fields[2]
		if fields[3] == "false" {
			c.byName[fields[1]] = fields[0]
		}
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		if c.exports[path] == "" {
			return nil, fmt.Errorf("the runner does not know the package %s", path)
		}
		return os.Open(c.exports[path])
	})
	return c, nil
}

// Package gives the package with a name.
func (c *Checker) Package(name string) (*types.Package, error) {
	path := c.byName[name]
	if path == "" {
		return nil, nil
	}
	return c.importer.Import(path)
}

var declaration = regexp.MustCompile(`(?m)^(func|type|import) `)

// Check type-checks the Go of a page. A block with a package clause is a file, one that
// declares functions or types has declarations, any other one has the statements of a
// function. A block that is written to a file is left to the command that compiles it, one
// that a test runs to that test. A …
// stands for code that is left out. Variables that a block does not use are
// no errors, since pages show parts.
func (c *Checker) Check(p *Page) []error {
	var prelude strings.Builder
	var failed []error
	for _, b := range p.Blocks {
		prelude.WriteString(b.Notes["go"])
		if b.Lang != "go" || b.Notes["not run"] != "" || b.Notes["run by"] != "" || b.Notes["file"] != "" {
			continue
		}
		text := strings.ReplaceAll(b.Text, "…", "")
		at := fmt.Sprintf("//line %s:%d\n", p.Name, b.Line+1)
		head := "package page\n" + c.Prelude + "\n" + prelude.String()
		switch {
		case strings.HasPrefix(b.Text, "package "), strings.HasPrefix(b.Text, "//") && strings.Contains(b.Text, "\npackage "):
			text = at + text
		default:
			statements := head + "func _() error {\n" + at + text + "return nil\n}\n"
			if _, err := parser.ParseFile(token.NewFileSet(), "page.go", statements, 0); err != nil && declaration.MatchString(text) {
				text = head + at + text
			} else {
				text = statements
			}
		}
		failed = append(failed, c.check(text)...)
	}
	return failed
}

// check type-checks a file, to which it adds the imports that it lacks.
func (c *Checker) check(text string) []error {
	file, err := parser.ParseFile(c.fset, "page.go", text, parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	if len(file.Imports) == 0 {
		var imports strings.Builder
		for _, name := range c.packagesOf(file) {
			fmt.Fprintf(&imports, "import %q;", c.byName[name])
		}
		clause, rest, _ := strings.Cut(text, "\n")
		if file, err = parser.ParseFile(c.fset, "page.go", clause+";"+imports.String()+"\n"+rest, parser.SkipObjectResolution); err != nil {
			return []error{err}
		}
	}
	var failed []error
	config := types.Config{Importer: c.importer, Error: func(err error) {
		var typed types.Error
		if errors.As(err, &typed) && typed.Soft {
			return
		}
		failed = append(failed, err)
	}}
	_, _ = config.Check("page", c.fset, []*ast.File{file}, nil)
	return failed
}

// packagesOf gives the names of known packages that a file mentions.
func (c *Checker) packagesOf(file *ast.File) []string {
	var names []string
	seen := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && c.byName[x.Name] != "" && !seen[x.Name] {
				seen[x.Name] = true
				names = append(names, x.Name)
			}
		}
		return true
	})
	return names
}

// Missing tells what is wrong with a dotted name such as engine.Open, Options.Durability
// or Stats.Log.Dropped: the first part that does not exist, or "". Names that begin with
// neither a known package nor a type of the package home are not judged.
func (c *Checker) Missing(home *types.Package, name string) string {
	parts := strings.Split(name, ".")
	pkg, err := c.Package(parts[0])
	if err != nil {
		return err.Error()
	}
	if pkg != nil {
		parts = parts[1:]
	} else if pkg = home; pkg.Scope().Lookup(parts[0]) == nil {
		return ""
	}
	if len(parts) == 0 {
		return ""
	}
	object := pkg.Scope().Lookup(parts[0])
	if object == nil {
		return pkg.Name() + "." + parts[0]
	}
	for _, part := range parts[1:] {
		next, _, _ := types.LookupFieldOrMethod(object.Type(), true, pkg, part)
		if next == nil {
			return object.Name() + "." + part
		}
		object = next
	}
	return ""
}
