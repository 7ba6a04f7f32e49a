package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/partmap"
)

// reference is a slow reading of a document through encoding/json.
type reference struct {
	paths  []string
	flaws  []error        // everything wrong with the JSON
	values map[string]any // scalars by path; json.Delim for containers
	dec    *json.Decoder
	depth  int
}

// refer reads a document that json.Valid accepts.
func refer(doc []byte, paths []string, maxDepth int) *reference {
	r := &reference{paths: paths, values: map[string]any{}, dec: json.NewDecoder(bytes.NewReader(doc))}
	r.dec.UseNumber()
	if !utf8.Valid(doc) || halfSurrogate(doc) {
		r.flaws = append(r.flaws, ErrUTF8)
	}
	if first := bytes.TrimLeft(doc, " \t\r\n"); first[0] != '{' {
		r.flaws = append(r.flaws, ErrNotObject)
		return r
	}
	r.value("", true, 1)
	if r.depth > maxDepth {
		r.flaws = append(r.flaws, ErrTooDeep)
	}
	return r
}

// value reads the next value. Only the members of objects up to the root are
// named by their path.
func (r *reference) value(path string, named bool, depth int) {
	token, err := r.dec.Token()
	if err != nil {
		panic(err) // the document is valid
	}
	if named {
		r.values[path] = token
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return
	}
	r.depth = max(r.depth, depth)
	names := map[string]bool{}
	for r.dec.More() {
		if delim == '[' {
			r.value("", false, depth+1)
			continue
		}
		token, err := r.dec.Token()
		if err != nil {
			panic(err)
		}
		name := token.(string)
		if names[name] {
			r.flaws = append(r.flaws, ErrDuplicateName)
		}
		names[name] = true
		r.value(path+"/"+name, named && !strings.Contains(name, "/"), depth+1)
	}
	if _, err := r.dec.Token(); err != nil {
		panic(err)
	}
}

// halfSurrogate reports whether a valid document has an unpaired \ud800-\udfff.
func halfSurrogate(doc []byte) bool {
	for i := 0; i < len(doc); i++ {
		if doc[i] != '\\' {
			continue
		}
		i++
		if doc[i] != 'u' {
			continue
		}
		unit := func(at int) rune {
			if at+6 > len(doc) || doc[at] != '\\' || doc[at+1] != 'u' {
				return 0
			}
			n, _ := strconv.ParseUint(string(doc[at+2:at+6]), 16, 16)
			return rune(n)
		}
		if first := unit(i - 1); utf16.IsSurrogate(first) {
			if utf16.DecodeRune(first, unit(i+5)) == utf8.RuneError {
				return true
			}
			i += 6
		}
	}
	return false
}

// members returns what Scan must find, or the kind of its error.
func (r *reference) members() (id string, pk []byte, ttl int64, hasTTL bool, kind error) {
	value, ok := r.values["/id"]
	if !ok {
		return "", nil, 0, false, ErrNoID
	}
	id, ok = value.(string)
	if !ok || id == "" || len(id) > 1023 {
		return "", nil, 0, false, ErrBadID
	}
	if value, hasTTL = r.values["/ttl"]; hasTTL {
		number, _ := value.(json.Number)
		f, err := number.Float64()
		if err != nil || f != math.Floor(f) || f > math.MaxInt32 || f < 1 && f != -1 {
			return "", nil, 0, false, ErrBadTTL
		}
		ttl = int64(f)
	}
	for _, path := range r.paths {
		value, ok := r.values[path]
		switch v := value.(type) {
		case nil:
			if ok {
				pk = partmap.AppendNull(pk)
			} else {
				pk = partmap.AppendUndefined(pk)
			}
		case bool:
			pk = partmap.AppendBool(pk, v)
		case json.Number:
			f, err := v.Float64()
			if err != nil {
				return "", nil, 0, false, ErrBadKey
			}
			pk = partmap.AppendNumber(pk, f)
		case string:
			if len(v) > 2048 {
				return "", nil, 0, false, ErrBadKey
			}
			pk = partmap.AppendString(pk, []byte(v))
		default:
			return "", nil, 0, false, ErrBadKey
		}
	}
	if len(pk) > 4096 {
		return "", nil, 0, false, ErrBadKey
	}
	return id, pk, ttl, hasTTL, nil
}

// check compares a scan with the reference and returns the kind of the scan's
// error.
func check(t *testing.T, s *Scanner, out *Doc, doc []byte, paths []string, maxDepth int) error {
	t.Helper()
	compiled, err := Compile(paths)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Scan(doc, compiled, Limits{MaxDepth: maxDepth}, out)
	var e *Error
	if err != nil {
		if !errors.As(err, &e) || e.Msg == "" || e.Offset < 0 || e.Offset > len(doc) {
			t.Fatalf("%q: poor error %#v", doc, err)
		}
		if out.ID != nil || len(out.PK) != 0 || out.HasTTL || out.IDStart != -1 {
			t.Fatalf("%q: values beside an error: %+v", doc, out)
		}
	}
	if !json.Valid(doc) {
		if err == nil {
			t.Fatalf("%q: accepted, but is not JSON", doc)
		}
		if !slices.Contains([]error{ErrSyntax, ErrNotObject, ErrUTF8, ErrDuplicateName, ErrTooDeep}, e.Kind) {
			t.Fatalf("%q: not JSON, but the error is %v", doc, err)
		}
		return e.Kind
	}
	r := refer(doc, paths, maxDepth)
	if len(r.flaws) > 0 {
		if err == nil || !slices.Contains(r.flaws, e.Kind) {
			t.Fatalf("%q: got %v, want one of %v", doc, err, r.flaws)
		}
		return e.Kind
	}
	id, pk, ttl, hasTTL, kind := r.members()
	if kind != nil {
		if err == nil || e.Kind != kind {
			t.Fatalf("%q: got %v, want %v", doc, err, kind)
		}
		return e.Kind
	}
	if err != nil {
		t.Fatalf("%q: refused: %v", doc, err)
	}
	if string(out.ID) != id || !bytes.Equal(out.PK, pk) || out.TTL != ttl || out.HasTTL != hasTTL {
		t.Fatalf("%q: got id %q, key %x, ttl %d %v, want %q, %x, %d %v", doc, out.ID, out.PK, out.TTL, out.HasTTL, id, pk, ttl, hasTTL)
	}
	if out.IDStart >= 0 && string(doc[out.IDStart:out.IDEnd]) != id {
		t.Fatalf("%q: id at [%d:%d], which is %q", doc, out.IDStart, out.IDEnd, doc[out.IDStart:out.IDEnd])
	}
	return nil
}

// TestAgainstReference scans random documents and random damage of them.
func TestAgainstReference(t *testing.T) {
	r := randtest.New(t)
	rounds := 60000
	if testing.Short() {
		rounds = 6000
	}
	var s Scanner
	var out Doc
	kinds := map[error]int{}
	pathSets := [][]string{{"/a"}, {"/a/b", "/id"}, {"/b/a/c", "/c", "/ttl"}, {"/é"}}
	for range rounds {
		g := generator{r: r}
		g.document()
		doc := g.b
		for range r.IntN(3) {
			doc = damage(r, doc)
		}
		kinds[check(t, &s, &out, doc, pathSets[r.IntN(len(pathSets))], 5)]++
	}
	for _, kind := range []error{nil, ErrSyntax, ErrNotObject, ErrUTF8, ErrDuplicateName, ErrTooDeep, ErrNoID, ErrBadID, ErrBadKey, ErrBadTTL} {
		if kinds[kind] < rounds/6000 {
			t.Errorf("only %d documents with %v", kinds[kind], kind)
		}
	}
}

// generator writes random JSON, mostly valid.
type generator struct {
	r *rand.Rand
	b []byte
}

func (g *generator) pick(of ...string) { g.b = append(g.b, of[g.r.IntN(len(of))]...) }

func (g *generator) space() {
	if g.r.IntN(8) == 0 {
		g.pick(" ", "\n", "\t", "\r\n", "        ")
	}
}

func (g *generator) document() {
	g.space()
	g.b = append(g.b, '{')
	if g.r.IntN(20) > 0 {
		g.pick(`"id":"x"`, `"id":"x"`, `"id":"x"`, `"id" : "long enough for two words"`, `"\u0069d":"esc\n\u00e9\ud83d\ude00"`, `"id":"é世界😀"`, `"id":7`, `"id":""`, `"id":"a/b"`, `"id":"\\"`, `"id":null`)
	} else {
		g.pick(`"x":1`)
	}
	if g.r.IntN(4) == 0 {
		g.pick(`,"ttl":60`, `,"ttl":-1`, `,"ttl":6e1`, `,"ttl":2147483647`, `,"ttl":0`, `,"ttl":1.5`, `,"ttl":null`, `,"ttl":2147483648`, `,"ttl":-2`, `,"ttl":1e999`)
	}
	g.members(g.r.IntN(4), 1, false)
	g.b = append(g.b, '}')
	g.space()
	if g.r.IntN(50) == 0 {
		g.b = bytes.Trim(g.b, "{}")
		g.pick("", "[1]", `"a"`, "1", "true")
	}
}

func (g *generator) members(n, depth int, first bool) {
	for range n {
		if !first {
			g.b = append(g.b, ',')
		}
		first = false
		g.space()
		switch g.r.IntN(6) {
		case 0:
			fmt.Fprintf(&sliceWriter{&g.b}, `"n%d"`, g.r.IntN(1000))
		case 1:
			g.string()
		default:
			g.pick(`"a"`, `"b"`, `"c"`, `"c"`, `"\u0061"`, `"é"`, `"\u00e9"`, `"a member of some length"`)
		}
		g.space()
		g.b = append(g.b, ':')
		g.value(depth)
	}
}

func (g *generator) value(depth int) {
	g.space()
	switch k := g.r.IntN(10); {
	case k < 2:
		g.b = append(g.b, '{')
		n := g.r.IntN(4)
		if g.r.IntN(200) == 0 {
			n = 60
		}
		g.members(n, depth+1, true)
		g.space()
		g.b = append(g.b, '}')
	case k < 3:
		g.b = append(g.b, '[')
		for i := range g.r.IntN(4) {
			if i > 0 {
				g.b = append(g.b, ',')
			}
			g.value(depth + 1)
		}
		g.space()
		g.b = append(g.b, ']')
	case k < 6:
		g.string()
	case k < 8:
		g.pick("0", "-0", "7", "-12", "1234567890123456789", "0.5", "-1.25e-7", "1E+2", "12.000e0", "1e400", "9007199254740993")
	default:
		g.pick("true", "false", "null")
	}
	g.space()
}

func (g *generator) string() {
	g.b = append(g.b, '"')
	for range g.r.IntN(6) {
		g.pick("a", "bc", "some longer text", "é", "ß", "世界", "😀", "\U0010FFFF", "\uD7FF", "\uE000", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\u20AC`, `\uD83D\uDE00`, "\x7f", " ", "/")
	}
	g.b = append(g.b, '"')
}

// sliceWriter appends to a slice.
type sliceWriter struct{ b *[]byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	*w.b = append(*w.b, p...)
	return len(p), nil
}

// damage changes a document in one place.
func damage(r *rand.Rand, doc []byte) []byte {
	pieces := []string{"\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "\x00", "\x1f", "\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xef\xbf\xbd", "\xf4\x90\x80\x80", "\xf0\x80\x80\x80", "\xff", `\ud800`, `\udc00`, `\ud800\u0041`, `\u12`, `\x`, "tru", "nul", " ", "\v", "[[[[[[1]]]]]]", "\xef\xbb\xbf"}
	i := r.IntN(len(doc) + 1)
	j := min(len(doc), i+r.IntN(3))
	switch r.IntN(6) {
	case 0:
		return slices.Clone(doc[:i])
	case 1:
		return slices.Delete(slices.Clone(doc), i, j)
	case 2:
		return append(slices.Clone(doc[:j]), doc[i:]...)
	default:
		return append(append(slices.Clone(doc[:i]), pieces[r.IntN(len(pieces))]...), doc[j:]...)
	}
}
