package fault

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// TestUnsupported: where the store cannot work the compiler says so in a sentence,
// and elsewhere the file with that sentence is left out.
func TestUnsupported(t *testing.T) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "unsupported.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	where, err := constraint.Parse(file.Comments[0].List[0].Text)
	if err != nil {
		t.Fatal(err)
	}
	for arch, supported := range map[string]bool{"amd64": true, "arm64": true, "riscv64": true, "s390x": true, "386": false, "arm": false, "wasm": false} {
		if where.Eval(func(tag string) bool { return tag == arch }) == supported {
			t.Errorf("%s: supported is not %v", arch, supported)
		}
	}
	_, err = new(types.Config).Check("fault", files, []*ast.File{file}, nil)
	if err == nil || !strings.Contains(err.Error(), "Cleave needs a 64-bit processor") {
		t.Errorf("the compiler says %v", err)
	}
}
