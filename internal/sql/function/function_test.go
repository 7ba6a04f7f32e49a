package function

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// TestDocumented: docs/sql.md lists the functions that there are, and no others.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page2, ok := strings.Cut(string(page), "## Functions\n")
	if !ok {
		t.Fatal("no list of functions")
	}
	list, _, _ := strings.Cut(page2, "\n## ")
	list, _, _ = strings.Cut(list, "Regular expressions")
	found := make(map[string]bool)
	for _, name := range regexp.MustCompile("`([A-Za-z0-9_]+)`").FindAllStringSubmatch(list, -1) {
		if upper := strings.ToUpper(name[1]); upper != "_RID" {
			found[upper] = true
			if _, ok := Find(upper); !ok {
				t.Errorf("docs/sql.md lists %s, which there is not", name[1])
			}
		}
	}
	for name := range table {
		if !found[name] {
			t.Errorf("docs/sql.md does not list %s", name)
		}
	}
}

// TestUnlikeArguments: no function panics, whatever its arguments are, and what it makes is
// bounded.
func TestUnlikeArguments(t *testing.T) {
	var arguments []value.Value
	for _, text := range []string{
		`null`, `true`, `0`, `-1`, `2.5`, `1e300`, `-1e999`, `9223372036854775807`, `-9223372036854775808`, `""`, `"a"`, `"dd"`, `"[1,{\"a\":2}]"`, `"é😀"`, `"("`,
		`"2020-02-29T23:59:59.9999999Z"`, `"9999-12-31"`, `"yyyy"`, `[]`, `[1,"a",null]`, `["a","b"]`, `{}`, `{"a":1,"_rid":"AAAAAAAAAAAAAAAAAAAAAA=="}`,
	} {
		arguments = append(arguments, value.Parse([]byte(text)))
	}
	arguments = append(arguments, value.Value{})
	for name, f := range table {
		e := &Env{Begun: time.Unix(0, 0)}
		var args []value.Value
		var try func(n int)
		try = func(n int) {
			if n == 0 {
				e.Reset()
				v := f.Call(e, args)
				if v.IsArray() || v.IsObject() {
					_ = v.Append(nil)
				}
				return
			}
			for _, a := range arguments {
				args = append(args, a)
				try(n - 1)
				args = args[:len(args)-1]
			}
		}
		for n := f.Min; n <= min(f.Min+1, 3); n++ {
			if f.Max < 0 || n <= f.Max {
				try(n)
			}
		}
		for n := max(f.Min, 4); n <= f.Max; n++ { // many arguments, all alike
			for _, a := range arguments {
				e.Reset()
				all := make([]value.Value, n)
				for i := range all {
					all[i] = a
				}
				f.Call(e, all)
			}
		}
		_ = name
	}
}

// TestTooMuch: what functions make and look at is bounded.
func TestTooMuch(t *testing.T) {
	e := &Env{}
	f, _ := Find("REPLACE")
	text := value.String(strings.Repeat("a", 1<<16))
	if v := f.Call(e, []value.Value{text, value.String("a"), text}); !v.IsUndefined() || !errors.Is(e.Err(), fault.ErrTooLarge) {
		t.Errorf("REPLACE made %d bytes, error %v", v.Size(), e.Err())
	}
	e = &Env{}
	for range 3 {
		if _, ok := LikePattern("%a%a%a%b", 0).Match(e, strings.Repeat("a", 1<<22)); ok && e.Err() != nil {
			t.Error("LIKE gives a result and an error")
		}
	}
	if !errors.Is(e.Err(), fault.ErrTooLarge) {
		t.Errorf("LIKE takes any number of steps: %v", e.Err())
	}
	f, _ = Find("REPLICATE")
	e = &Env{}
	if v := f.Call(e, []value.Value{value.String("ab"), value.Number(1e300)}); !v.IsUndefined() || e.Err() != nil {
		t.Errorf("REPLICATE made %d bytes, error %v", v.Size(), e.Err())
	}
}

// TestManyTexts: the search for many texts in a long one ends with the context.
func TestManyTexts(t *testing.T) {
	for name, part := range map[string]string{"CONTAINS_ANY_CI": "x", "CONTAINS_ANY_CS": "x", "CONTAINS_ALL_CI": "a", "CONTAINS_ALL_CS": "a"} {
		f, _ := Find(name)
		args := []value.Value{value.String(strings.Repeat("a", 1<<16))}
		for range 100 {
			args = append(args, value.String(part))
		}
		e := &Env{Ctx: &randtest.AskedContext{Context: t.Context(), Left: 10}}
		if v := f.Call(e, args); !v.IsUndefined() || !errors.Is(e.Err(), context.Canceled) {
			t.Errorf("%s of a context that has ended is %v, error %v", name, v, e.Err())
		}
		e = &Env{}
		if v := f.Call(e, args); v.String() != fmt.Sprint(part == "a") || e.Err() != nil {
			t.Errorf("%s is %v, error %v", name, v, e.Err())
		}
	}
}

// TestLongCutset: a long text is trimmed of many characters.
func TestLongCutset(t *testing.T) {
	long := strings.Repeat("é", 1<<16)
	for name, want := range map[string]string{"TRIM": "a", "LTRIM": "a" + long, "RTRIM": long + "a"} {
		f, _ := Find(name)
		e := &Env{}
		v := f.Call(e, []value.Value{value.String(long + "a" + long), value.String(long)})
		if s, _ := v.Text(); s != want || e.Err() != nil || e.Made() != 0 {
			t.Errorf("%s leaves %d bytes, want %d, error %v; it holds %d bytes", name, len(s), len(want), e.Err(), e.Made())
		}
	}
}

// TestLongMatch: a match of a regular expression ends with the context, the size of its program is
// bounded, and what is matched in steps gives the same.
func TestLongMatch(t *testing.T) {
	f, _ := Find("REGEXMATCH")
	match := func(e *Env, text, pattern string) value.Value {
		return f.Call(e, []value.Value{value.String(text), value.String(pattern)})
	}
	e := &Env{Ctx: &randtest.AskedContext{Context: t.Context(), Left: 10}}
	if v := match(e, strings.Repeat("a", 1<<15), "(a?){300}b"); !v.IsUndefined() || !errors.Is(e.Err(), context.Canceled) {
		t.Errorf("the match of a context that has ended is %v, error %v", v, e.Err())
	}
	e = &Env{}
	if v := match(e, "a", strings.Repeat("a{1000}", 100)); !v.IsUndefined() || !errors.Is(e.Err(), fault.ErrTooLarge) {
		t.Errorf("a program of 100,000 instructions: %v, error %v", v, e.Err())
	}
	long := strings.Repeat("a", 1<<15) + "é"
	for pattern, want := range map[string]bool{"x{300}|^a+é$": true, "x{300}|éa": false, `\p{L}{500}`: true} {
		e = &Env{}
		if v := match(e, long, pattern); v.IsUndefined() || string(v.Append(nil)) != fmt.Sprint(want) || e.Err() != nil {
			t.Errorf("%s: %s, error %v", pattern, v.Append(nil), e.Err())
		}
	}
}

// TestKeptPatterns: the regular expressions that are kept, those that are none included, take bounded memory.
func TestKeptPatterns(t *testing.T) {
	f, _ := Find("REGEXMATCH")
	e := &Env{}
	for i := range 6 {
		for _, text := range []string{strings.Repeat("x{1000}", 6) + fmt.Sprint(i), strings.Repeat("(", 1<<20) + fmt.Sprint(i)} {
			f.Call(e, []value.Value{value.String("a"), value.String(text)})
		}
		size := 0
		for text, p := range e.patterns {
			size += len(text) + 64*p.size
		}
		if size > 4<<20 || e.Err() != nil {
			t.Fatalf("%d regular expressions of %d bytes are kept, error %v", len(e.patterns), size, e.Err())
		}
	}
}

// TestDeepText: a text has no array or object of more levels than a document.
func TestDeepText(t *testing.T) {
	for name, level := range map[string][2]string{"STRINGTOARRAY": {"[1,", "]"}, "STRINGTOOBJECT": {`{"a":1,"b":`, "}"}} {
		f, _ := Find(name)
		for levels, want := range map[int]bool{1: true, jsondoc.DefaultMaxDepth: true, jsondoc.DefaultMaxDepth + 1: false, 9_000: false} {
			text := strings.Repeat(level[0], levels) + "null" + strings.Repeat(level[1], levels)
			if v := f.Call(&Env{}, []value.Value{value.String(text)}); v.IsUndefined() == want {
				t.Errorf("%s: a text of %d levels is %.40s", name, levels, v)
			}
		}
	}
}

// TestPartOfLargeObject: a large part is found without a look at all of the whole for each of its members.
func TestPartOfLargeObject(t *testing.T) {
	const members = 500
	names := make([]string, members)
	for i := range names {
		names[i] = fmt.Sprintf(`"m%d":%d`, i, i)
	}
	part := "{" + strings.Join(names, ",") + "}"
	whole := "[{" + strings.Join(names, ",") + `,"more":1}]`
	e := &Env{}
	v := table["ARRAY_CONTAINS"].Call(e, []value.Value{value.Parse([]byte(whole)), value.Parse([]byte(part)), value.Bool(true)})
	if found, ok := v.Bool(); !ok || !found {
		t.Errorf("%v, want true", v)
	}
	if times := e.Looked() / int64(len(whole)); times > members/10 {
		t.Errorf("%d members take %d looks at all of them", members, times)
	}
}

// TestLikeOpenSets: of the sets of a LIKE pattern that have no end, only the first is looked for to the end of the pattern, and each
// stands for itself.
func TestLikeOpenSets(t *testing.T) {
	const many = 2000
	text := strings.Repeat("[a", many)
	if n := testing.AllocsPerRun(1, func() { LikePattern("[x-z]"+text, 0) }); n > many {
		t.Errorf("%.0f allocations for %d sets", n, many)
	}
	for pattern, strs := range map[string][2]string{"[x-z]" + text: {"y" + text, "a" + text}, "[a[b]": {"[", "[a[b]"}, "[][": {"[][", "]["}, "[^[]_[": {"ab[", "[b["}} {
		for i, s := range strs {
			if matches, ok := LikePattern(pattern, 0).Match(new(Env), s); !ok || matches != (i == 0) {
				t.Errorf("%.20q LIKE %.20q: %v", s, pattern, matches)
			}
		}
	}
}
