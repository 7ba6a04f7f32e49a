package value

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// samples are values in the order of their keys.
var samples = []string{
	`null`, `false`, `true`, `-1e999`, `-2.5`, `0`, `1`, `1.5`, `1e999`, `""`, `"\u0000"`, `"\u0000a"`, `"a"`, `"a\u0000"`, `"ab"`, `"é"`, `"😀"`,
	`[]`, `[null]`, `[1]`, `[1,2]`, `[2]`, `["a"]`, `[[1]]`, `{}`, `{"a":1}`, `{"a":1,"b":2}`, `{"a":{}}`, `{"b":1}`,
}

// TestKeys: keys compare as values do, and none is the beginning of another.
func TestKeys(t *testing.T) {
	for i, a := range samples {
		for j, b := range samples {
			x, y := Parse([]byte(a)), Parse([]byte(b))
			kx, ky := string(x.AppendKey(nil)), string(y.AppendKey(nil))
			if (kx < ky) != (i < j) || i != j && strings.HasPrefix(kx, ky) {
				t.Errorf("key of %s is %q, of %s %q", a, kx, b, ky)
			}
			for range 3 { // a key is kept from the second time on
				if Equal(x, y) != (i == j) {
					t.Errorf("Equal(%s, %s) is %v", a, b, i != j)
				}
			}
			order, ok := Compare(x, y)
			if ok != (x.Kind() == y.Kind() && x.Kind() < jsondoc.KindArray) || ok && (order < 0) != (i < j) {
				t.Errorf("Compare(%s, %s) is %d, %v", a, b, order, ok)
			}
		}
	}
}

// TestSameInBothForms: a value that was made and the same one in a document differ in
// nothing.
func TestSameInBothForms(t *testing.T) {
	for _, text := range append(samples, `{"a":[{"b":"x\ny"},true],"c\"d":null}`, `12345678901234567`, `-9223372036854775808`) {
		var plain any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&plain); err != nil {
			t.Fatal(err)
		}
		written := Parse([]byte(text))
		if read, err := Of(json.RawMessage(" "+text), math.MaxInt64); err != nil || !Equal(written, read) || read.c != nil && read.c.raw != nil {
			t.Errorf("%s as JSON is %s, error %v", text, read, err)
		}
		made, err := Of(plain, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		if opened := written.Open(); !Equal(opened, written) || opened.c != nil && opened.c.made == nil {
			t.Errorf("%s opened is %s", text, opened)
		}
		if !Equal(written, made) || written.String() != made.Keep().String() && written.Len() != 2 {
			t.Errorf("%s: %s and %s", text, written, made)
		}
		if written.Len() != made.Len() || len(written.List()) != len(made.List()) {
			t.Errorf("%s: lengths %d and %d", text, written.Len(), made.Len())
		}
		for i := -1; i <= made.Len(); i++ {
			if !Equal(written.At(i), made.At(i)) {
				t.Errorf("%s: element %d is %s and %s", text, i, written.At(i), made.At(i))
			}
		}
		made.Members(func(name string, v Value) bool {
			if !Equal(written.Member(name), v) {
				t.Errorf("%s: member %s is %s and %s", text, name, written.Member(name), v)
			}
			return true
		})
	}
}

// TestKeep: what is kept of a string holds no more of it.
func TestKeep(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, v := range []Value{String(long[:3]), Array([]Value{String(long[:3])}), Object([]string{"a"}, []Value{String(long[:3])})} {
		kept := v.Keep()
		part := kept
		if kept.Len() > 0 {
			part = append(kept.List(), kept.Member("a"))[0]
		}
		if text, ok := part.Text(); !ok || text != "xxx" || unsafe.StringData(text) == unsafe.StringData(long) {
			t.Errorf("%s is kept as %s, or with all of its string", v, kept)
		}
	}
}

// TestLargeIntegers: an integer keeps its digits, and compares as a double.
func TestLargeIntegers(t *testing.T) {
	a, b := Parse([]byte("9007199254740993")), Parse([]byte("9007199254740992"))
	if a.String() != "9007199254740993" || !Equal(a, b) {
		t.Errorf("%s equals %s: %v", a, b, Equal(a, b))
	}
	if i, ok := a.Int(); !ok || i != 9007199254740993 {
		t.Errorf("Int is %d, %v", i, ok)
	}
	for _, text := range []string{"1.5", "9223372036854775808", "1e300", `"1"`, "null", "1e999"} {
		if i, ok := Parse([]byte(text)).Int(); ok {
			t.Errorf("%s is the integer %d", text, i)
		}
	}
}

// TestMade: what is made holds no undefined value, and of two members of one name the last.
func TestMade(t *testing.T) {
	v := Object([]string{"a", "b", "a", "n"}, []Value{Int(1), {}, Int(2), Number(math.NaN())})
	if got := v.String(); got != `{"a":2}` {
		t.Errorf("object %s", got)
	}
	// So it is of many members, which are found in one pass.
	const many = 1 << 19
	names, list := make([]string, 0, many+many/2), make([]Value, 0, many+many/2)
	for i := range many + many/2 {
		names, list = append(names, fmt.Sprintf("%06d", i%many)), append(list, Int(int64(i)))
	}
	list[many/2] = Value{}
	v = Object(names, list)
	if n, first := v.Len(), v.Member("000000"); n != many-1 || first.String() != fmt.Sprint(many) || v.Member("499999").String() != "499999" {
		t.Errorf("%d members, the first one %s", n, first)
	}
	if got := Array([]Value{{}, Int(1), Number(math.NaN()), Null()}).String(); got != `[1,null]` {
		t.Errorf("array %s", got)
	}
	for _, bad := range []any{make(chan int), "\xff", math.NaN(), json.Number("x"), json.RawMessage("{"), []any{make(chan int)}, map[string]any{"a": struct{}{}}} {
		if v, err := Of(bad, math.MaxInt64); err == nil {
			t.Errorf("%v is the value %s", bad, v)
		}
	}
	deep := any(1)
	for range maxDepth + 2 {
		deep = []any{deep}
	}
	if _, err := Of(deep, math.MaxInt64); err == nil {
		t.Error("a value of endless depth is taken")
	}
}

// TestOfStops: Of makes no more than it may. It does not come to what is no value behind that, and to
// the members of a map only if they fit.
func TestOfStops(t *testing.T) {
	const most = 100 * 48
	bad := make(chan int)
	large := make(map[string]any)
	for i := range 100 {
		large[fmt.Sprint(i)] = bad
	}
	list := func(n int, of any) (l []any) {
		for range n {
			l = append(l, of)
		}
		return l
	}
	for name, v := range map[string]any{
		"a string":         []any{strings.Repeat("x", most), bad},
		"an array":         list(100, bad),
		"arrays":           []any{list(50, 1), list(49, 1), bad},
		"an object":        large,
		"objects":          []any{map[string]any{"a": list(97, 1)}, bad},
		"a string of JSON": []any{json.RawMessage(`"` + strings.Repeat("x", most) + `"`), bad},
		"an array of JSON": []any{json.RawMessage("[" + strings.Repeat("1,", 97) + "1]"), bad},
		"a name of JSON":   []any{json.RawMessage(`{"` + strings.Repeat("x", most) + `":1}`), bad},
	} {
		if _, err := Of(v, most); err != ErrLarge {
			t.Errorf("%s: error %v, want %v", name, err, ErrLarge)
		}
	}
	for _, v := range []any{list(99, 1), json.RawMessage("[" + strings.Repeat("1,", 98) + "1]"), map[string]any{"a": list(97, 1)}} {
		if v, err := Of(v, most); err != nil || v.Size() > most {
			t.Errorf("%d bytes, error %v", v.Size(), err)
		}
	}
	if v, err := Of(json.RawMessage(`{"a":1,"\ud800x":"\ud83d\ude00\udc00","a":2}`), most); err != nil || v.String() != "{\"a\":2,\"\ufffdx\":\"😀\ufffd\"}" {
		t.Errorf("%s, error %v", v, err)
	}
	if _, err := Of(json.RawMessage(strings.Repeat("[", maxDepth+2)+strings.Repeat("]", maxDepth+2)), math.MaxInt64); err == nil {
		t.Error("JSON of endless depth is taken")
	}
}
