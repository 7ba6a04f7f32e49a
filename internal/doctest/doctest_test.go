package doctest

import (
	"runtime"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		want, got string
		vary      bool
		match     bool
	}{
		{"a  b", "a b\n", false, true},
		{"a", "a\nb", false, false},
		{"a\n…", "a\nb\nc", false, true},
		{"a\n…", "a", false, true},
		{"…\nc", "a\nb\nc", false, true},
		{"…\nd", "a\nb\nc", false, false},
		{"took … s", "took 0.1 s", false, true},
		{"took … s", "took 0.1 ms", false, false},
		{"3 files", "4 files", false, false},
		{"3 files of 1.5 KiB", "4 files of 12,000 B", true, true},
		{"3 files", "no files", true, false},
		{"(a|b)", "a", false, false},
		{"", "", false, true},
	} {
		if Match(c.want, c.got, c.vary) != c.match {
			t.Errorf("Match(%q, %q, %v) = %v", c.want, c.got, c.vary, !c.match)
		}
	}
}

func TestSteps(t *testing.T) {
	b := Block{Line: 1, Lang: "console", Text: "$ a 'x\ny'\nout\n$ b \\\n  c\n$ cat <<EOF\n$ d\nEOF\n\nmore\n"}
	var all []string
	for _, s := range b.Steps() {
		all = append(all, s.Command+"|"+s.Output)
	}
	if got := strings.Join(all, "#"); got != "a 'x\ny'|out\n#b \\\n  c|#cat <<EOF\n$ d\nEOF|\nmore\n" {
		t.Errorf("%q", got)
	}
	b = Block{Lang: "sh", Text: "# none\na # don't\n\nb\n"}
	if steps := b.Steps(); len(steps) != 2 || steps[0].Command != "a # don't" || steps[1].Command != "b" {
		t.Errorf("%+v", steps)
	}
}

func TestParse(t *testing.T) {
	p, err := Parse("p.md", "# A *b*: `c`!\n## A b c\n[x](#a-b-c-1) [y](#no) `[z](#no)`\n<!-- exit: 1 -->\n```sh\nfalse\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	if broken := p.BrokenLinks(".", map[string]*Page{"p.md": p}); len(broken) != 1 || !strings.Contains(broken[0].Error(), "#no") {
		t.Error(broken)
	}
	if len(p.Blocks) != 1 || p.Blocks[0].Notes["exit"] != "1\n" || p.Blocks[0].Line != 5 {
		t.Errorf("%+v", p.Blocks)
	}
	for _, text := range []string{"```sh\na\n", "<!-- exit: 1\n", "<!-- unknown: 1 -->\n```\n```\n", "<!-- not run: x -->\ntext\n"} {
		if _, err := Parse("p.md", text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestRun: what a page shows is compared, and so is the status.
func TestRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a Unix shell is needed")
	}
	for text, good := range map[string]bool{
		"$ echo a\na\n":                   true,
		"$ echo a\nb\n":                   false,
		"$ false\n":                       false,
		"$ mkdir d && cd d\n$ ls ..\nd\n": true,
		"$ exit 0\n":                      false,
	} {
		shell := &Shell{Dir: t.TempDir()}
		if err := shell.Run(t.Context(), "p.md", Block{Lang: "console", Text: text}); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
	shell := &Shell{Dir: t.TempDir()}
	if err := shell.Run(t.Context(), "p.md", Block{Lang: "sh", Text: "true\nfalse\n", Notes: map[string]string{"exit": "1\n"}}); err != nil {
		t.Error(err)
	}
	if err := shell.Run(t.Context(), "p.md", Block{Lang: "console", Text: "$ cat f\nx\n", Notes: map[string]string{"setup": "echo x >f\n"}}); err != nil {
		t.Error(err)
	}
}

// TestCheck: code that a page leaves out, and variables that it does not use, are no
// errors; names that do not exist are.
func TestCheck(t *testing.T) {
	c, err := NewChecker(".", "fmt", "strings")
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		"x := 1":                               true,
		"for i := range 3 { … } // …":          true,
		"fmt.Printl(1)":                        false,
		"var b strings.Builder\nb.WriteStr(…)": false,
		"type T struct{}\nfunc (T) F() {}":     true,
		"fmt.Println(y)":                       false,
		"fmt.Println(z)":                       true,
	} {
		page := &Page{Name: "p.md", Blocks: []Block{{Lang: "go", Text: text + "\n", Notes: map[string]string{"go": "var z int\n"}}}}
		if failed := c.Check(page); (len(failed) == 0) != good {
			t.Errorf("%q: %v", text, failed)
		}
	}
	fmtPackage, err := c.Package("fmt")
	if err != nil {
		t.Fatal(err)
	}
	for name, missing := range map[string]string{"fmt.Println": "", "fmt.Printl": "fmt.Printl", "strings.Builder.Len": "", "Stringer.String": "", "Stringer.Text": "Stringer.Text", "Other.X": ""} {
		if got := c.Missing(fmtPackage, name); got != missing {
			t.Errorf("%s: %q", name, got)
		}
	}
}
