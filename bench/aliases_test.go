package bench

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestAliasesShowMembers: godoc shows nothing of a type that is an alias of one in an internal
// package. So the comment of each such alias in engine shows the exported fields and methods
// as Go, in an indented block, with the types that a caller can name. Error, Is, As and Unwrap
// need not be shown: package errors calls them.
func TestAliasesShowMembers(t *testing.T) {
	aliases := internalAliases(t, parseDir(t, filepath.Join("..", "engine")))
	if len(aliases) < 10 {
		t.Fatalf("%d aliases found", len(aliases))
	}
	named := make(map[string]string) // of types of other packages, as in feed.Position: the aliases
	for _, a := range aliases {
		named[a.pkg+"."+a.target] = a.name
	}
	named["partmap.Key"] = "PartitionKey"
	for _, a := range aliases {
		want := a.members(parseDir(t, filepath.Join("..", a.dir)), named)
		if want == nil {
			t.Errorf("%s: %s has no type %s", a.name, a.dir, a.target)
		}
		got, err := shownMembers(a.comment)
		if err != nil {
			t.Errorf("comment of engine.%s: the block is not Go: %v", a.name, err)
		}
		for member, is := range want {
			if got[member] != is {
				t.Errorf("comment of engine.%s: %s is %q, and the comment shows %q", a.name, member, is, got[member])
			}
		}
		for member := range got {
			if _, ok := want[member]; !ok {
				t.Errorf("comment of engine.%s shows %s, which it has not", a.name, member)
			}
		}
	}
}

// TestShownMembers: a block that shows less, or something else, is noticed.
func TestShownMembers(t *testing.T) {
	got, err := shownMembers("T says it.\n\n\tA, B int // both\n\tC [2]string `json:\"c\"`\n\tfunc (*T) Do(n int) (err error)\n\nThe end.\n")
	want := map[string]string{"A": "int", "B": "int", "C": "[2]string `json:\"c\"`", "Do": "func(*T)(int) error"}
	if err != nil || len(got) != len(want) {
		t.Errorf("%q, %v", got, err)
	}
	for member, is := range want {
		if got[member] != is {
			t.Errorf("%s: %q, want %q", member, got[member], is)
		}
	}
	if _, err := shownMembers("T.\n\n\tA of B\n"); err == nil {
		t.Error("what is not Go was read")
	}
	if got, err := shownMembers("T has the field A.\n"); err != nil || len(got) != 0 {
		t.Errorf("prose shows %q, %v", got, err)
	}
}

// internalAlias is an exported alias of a type in an internal package.
type internalAlias struct {
	name, comment    string
	pkg, target, dir string // feed, Position, internal/feed
}

// internalAliases returns the exported aliases in files that stand for types of internal packages.
func internalAliases(t *testing.T, files []*ast.File) (all []internalAlias) {
	const module = "github.com/cleavestore/cleave/"
	for _, file := range files {
		dirs := make(map[string]string)
		for _, i := range file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(path)
			if i.Name != nil {
				name = i.Name.Name
			}
			if dir, ok := strings.CutPrefix(path, module); ok && strings.Contains("/"+dir, "/internal/") {
				dirs[name] = dir
			}
		}
		for decl, spec := range typesOf(file) {
			from, ok := spec.Type.(*ast.SelectorExpr)
			if !ok || !spec.Assign.IsValid() || !spec.Name.IsExported() {
				continue
			}
			if pkg := from.X.(*ast.Ident).Name; dirs[pkg] != "" {
				comment := spec.Doc.Text() + decl.Doc.Text()
				all = append(all, internalAlias{spec.Name.Name, comment, pkg, from.Sel.Name, dirs[pkg]})
			}
		}
	}
	return all
}

// members returns the exported members of the type, in terms of the aliases that engine has.
func (a *internalAlias) members(files []*ast.File, named map[string]string) map[string]string {
	var found map[string]string
	for _, file := range files {
		for _, spec := range typesOf(file) {
			if spec.Name.Name == a.target {
				found = make(map[string]string)
				if s, ok := spec.Type.(*ast.StructType); ok {
					addFields(found, s)
				}
			}
		}
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && found != nil && f.Recv != nil && receiverOf(f) == a.target {
				addMethod(found, f)
			}
		}
	}
	for _, protocol := range []string{"Error", "Is", "As", "Unwrap"} {
		if strings.HasPrefix(found[protocol], "func(") {
			delete(found, protocol)
		}
	}
	for member, is := range found {
		text, tag, tagged := strings.Cut(is, " `")
		text = typeName.ReplaceAllStringFunc(text, func(name string) string {
			full := name
			if !strings.Contains(name, ".") {
				full = a.pkg + "." + name
			}
			if alias := named[full]; alias != "" {
				return alias
			}
			return name
		})
		if tagged {
			text += " `" + tag
		}
		found[member] = text
	}
	return found
}

var typeName = regexp.MustCompile(`\b(\w+\.)?[A-Z]\w*`)

// shownMembers returns the members that a comment shows in its indented lines.
func shownMembers(comment string) (map[string]string, error) {
	var fields, methods strings.Builder
	for line := range strings.Lines(comment) {
		switch code, ok := strings.CutPrefix(line, "\t"); {
		case !ok:
		case strings.HasPrefix(code, "func "):
			methods.WriteString(code)
		default:
			fields.WriteString(code)
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "comment", "package p\ntype T struct {\n"+fields.String()+"}\n"+methods.String(), parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for _, spec := range typesOf(file) {
		addFields(found, spec.Type.(*ast.StructType))
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
			addMethod(found, f)
		}
	}
	return found, nil
}

// addFields adds the exported fields of a struct: what each is, and its tag.
func addFields(members map[string]string, s *ast.StructType) {
	for _, field := range s.Fields.List {
		is := source(field.Type)
		if field.Tag != nil {
			is += " " + field.Tag.Value
		}
		names := field.Names
		if len(names) == 0 { // embedded
			names = []*ast.Ident{ast.NewIdent(is[strings.LastIndexAny(is, ".*")+1:])}
		}
		for _, name := range names {
			if name.IsExported() {
				members[name.Name] = is
			}
		}
	}
}

// addMethod adds an exported method: its receiver, and the types of its signature.
func addMethod(members map[string]string, f *ast.FuncDecl) {
	if !f.Name.IsExported() {
		return
	}
	is := "func(" + source(f.Recv.List[0].Type) + ")(" + strings.Join(typesIn(f.Type.Params), ", ") + ")"
	switch results := typesIn(f.Type.Results); len(results) {
	case 0:
	case 1:
		is += " " + results[0]
	default:
		is += " (" + strings.Join(results, ", ") + ")"
	}
	members[f.Name.Name] = is
}

// typesIn returns the type of each parameter or result.
func typesIn(list *ast.FieldList) (all []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for range max(1, len(field.Names)) {
			all = append(all, source(field.Type))
		}
	}
	return all
}

// receiverOf returns the name of a method's type.
func receiverOf(f *ast.FuncDecl) string {
	return strings.TrimPrefix(source(f.Recv.List[0].Type), "*")
}

// typesOf yields the types that a file declares, each with its declaration.
func typesOf(file *ast.File) func(yield func(*ast.GenDecl, *ast.TypeSpec) bool) {
	return func(yield func(*ast.GenDecl, *ast.TypeSpec) bool) {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				continue
			}
			for _, spec := range decl.Specs {
				if !yield(decl, spec.(*ast.TypeSpec)) {
					return
				}
			}
		}
	}
}

// source returns the text of an expression.
func source(e ast.Expr) string {
	var text bytes.Buffer
	_ = format.Node(&text, token.NewFileSet(), e) // a bytes.Buffer takes everything
	return text.String()
}

// parseDir parses the production files of a package.
func parseDir(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no Go files", dir)
	}
	return files
}
