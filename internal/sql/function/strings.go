package function

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/sql/value"
)

const (
	kindNull   = jsondoc.KindNull
	kindBool   = jsondoc.KindBool
	kindNumber = jsondoc.KindNumber
	kindString = jsondoc.KindString
)

// ofString makes a function of one string.
func ofString(name string, call func(e *Env, s string) value.Value) {
	add(name, 1, 1, func(e *Env, args []value.Value) value.Value {
		s, ok := args[0].Text()
		if !ok {
			return value.Value{}
		}
		return call(e, s)
	})
}

// made returns a string that was made.
func made(e *Env, n int, make func() string) value.Value {
	if !e.Grow(n) {
		return value.Value{}
	}
	return value.String(make())
}

// texts returns the strings that arguments are.
func texts(args []value.Value) ([]string, bool) {
	list := make([]string, len(args))
	for i, v := range args {
		var ok bool
		if list[i], ok = v.Text(); !ok {
			return nil, false
		}
	}
	return list, true
}

// flag returns an optional boolean, the argument number i; ok is false if it is something
// else.
func flag(args []value.Value, i int) (set, ok bool) {
	if i >= len(args) {
		return false, true
	}
	return args[i].Bool()
}

func addStrings() {
	ofString("LENGTH", func(_ *Env, s string) value.Value { return value.Int(int64(utf8.RuneCountInString(s))) })
	ofString("LOWER", func(e *Env, s string) value.Value {
		return made(e, len(s), func() string { return strings.ToLower(s) })
	})
	ofString("UPPER", func(e *Env, s string) value.Value {
		return made(e, len(s), func() string { return strings.ToUpper(s) })
	})
	ofString("REVERSE", func(e *Env, s string) value.Value {
		return made(e, len(s), func() string {
			b := make([]byte, 0, len(s))
			for len(s) > 0 {
				_, n := utf8.DecodeLastRuneInString(s)
				b = append(b, s[len(s)-n:]...)
				s = s[:len(s)-n]
			}
			return string(b)
		})
	})
	spaces := []rune(space)
	slices.Sort(spaces)
	trim := func(name string, call func(s string, cut func(rune) bool) string) {
		add(name, 1, 2, func(e *Env, args []value.Value) value.Value {
			list, ok := texts(args)
			if !ok {
				return value.Value{}
			}
			cutset, n := spaces, 0
			if len(list) == 2 {
				if n = 4 * len(list[1]); !e.Grow(n) {
					return value.Value{}
				}
				cutset = []rune(list[1])
				slices.Sort(cutset)
			}
			s := call(list[0], func(r rune) bool {
				_, found := slices.BinarySearch(cutset, r)
				return found
			})
			e.Drop(n)
			return value.String(s)
		})
	}
	trim("TRIM", strings.TrimFunc)
	trim("LTRIM", strings.TrimLeftFunc)
	trim("RTRIM", strings.TrimRightFunc)
	compared := func(name string, test func(s, part string) bool) {
		add(name, 2, 3, func(e *Env, args []value.Value) value.Value {
			list, ok := texts(args[:2])
			fold, isFlag := flag(args, 2)
			if !ok || !isFlag {
				return value.Value{}
			}
			if fold {
				if !e.Grow(len(list[0]) + len(list[1])) {
					return value.Value{}
				}
				list[0], list[1] = strings.ToLower(list[0]), strings.ToLower(list[1])
			}
			return value.Bool(test(list[0], list[1]))
		})
	}
	compared("STARTSWITH", strings.HasPrefix)
	compared("ENDSWITH", strings.HasSuffix)
	compared("CONTAINS", strings.Contains)
	compared("STRINGEQUALS", func(a, b string) bool { return a == b })
	several := func(name string, fold, all bool) {
		add(name, 2, -1, func(e *Env, args []value.Value) value.Value {
			list, ok := texts(args)
			if !ok {
				return value.Value{}
			}
			for i, s := range list {
				if fold {
					if !e.Grow(len(s)) {
						return value.Value{}
					}
					list[i] = strings.ToLower(s)
				}
				if i == 0 {
					continue
				}
				if !e.Look(len(list[0])) {
					return value.Value{}
				}
				if strings.Contains(list[0], list[i]) != all {
					return value.Bool(!all)
				}
			}
			return value.Bool(all)
		})
	}
	several("CONTAINS_ANY_CI", true, false)
	several("CONTAINS_ANY_CS", false, false)
	several("CONTAINS_ALL_CI", true, true)
	several("CONTAINS_ALL_CS", false, true)
	add("CONCAT", 1, -1, func(e *Env, args []value.Value) value.Value {
		list, ok := texts(args)
		if !ok {
			return value.Value{}
		}
		n := 0
		for _, s := range list {
			n += len(s)
		}
		return made(e, n, func() string { return strings.Join(list, "") })
	})
	add("LEFT", 2, 2, func(_ *Env, args []value.Value) value.Value { return part(args[0], value.Int(0), args[1]) })
	add("RIGHT", 2, 2, func(_ *Env, args []value.Value) value.Value {
		s, ok := args[0].Text()
		n, isInt := args[1].Int()
		if !ok || !isInt {
			return value.Value{}
		}
		length := int64(utf8.RuneCountInString(s))
		return part(args[0], value.Int(length-min(length, max(n, 0))), value.Int(length))
	})
	add("SUBSTRING", 3, 3, func(_ *Env, args []value.Value) value.Value { return part(args[0], args[1], args[2]) })
	add("INDEX_OF", 2, 3, indexOf)
	add("LASTINDEXOF", 2, 3, func(_ *Env, args []value.Value) value.Value {
		list, ok := texts(args[:2])
		if !ok {
			return value.Value{}
		}
		s := list[0]
		if len(args) == 3 {
			from, isInt := args[2].Int()
			if !isInt || from < 0 {
				return value.Value{}
			}
			// What is found begins there at the latest.
			s = s[:min(len(s), offset(s, from)+len(list[1]))]
		}
		i := strings.LastIndex(s, list[1])
		if i > 0 {
			i = utf8.RuneCountInString(s[:i])
		}
		return value.Int(int64(i))
	})
	add("REPLACE", 3, 3, func(e *Env, args []value.Value) value.Value {
		list, ok := texts(args)
		if !ok || list[1] == "" {
			return value.Value{}
		}
		n := strings.Count(list[0], list[1])
		return made(e, len(list[0])+n*max(0, len(list[2])-len(list[1])), func() string { return strings.ReplaceAll(list[0], list[1], list[2]) })
	})
	add("REPLICATE", 2, 2, func(e *Env, args []value.Value) value.Value {
		s, ok := args[0].Text()
		n, isNumber := args[1].Number()
		if !ok || !isNumber || !(n >= 0) || math.IsInf(n, 0) || float64(utf8.RuneCountInString(s))*math.Trunc(n) > maxReplicated {
			return value.Value{}
		}
		if s == "" {
			return value.String("")
		}
		return made(e, len(s)*int(n), func() string { return strings.Repeat(s, int(n)) })
	})
	add("STRINGJOIN", 2, 2, func(e *Env, args []value.Value) value.Value {
		between, ok := args[1].Text()
		if !ok || !args[0].IsArray() {
			return value.Value{}
		}
		list, ok := texts(args[0].List())
		if !ok {
			return value.Value{}
		}
		n := 0
		for _, s := range list {
			n += len(s) + len(between)
		}
		return made(e, n, func() string { return strings.Join(list, between) })
	})
	add("STRINGSPLIT", 2, 2, func(e *Env, args []value.Value) value.Value {
		list, ok := texts(args)
		if !ok {
			return value.Value{}
		}
		if list[1] == "" {
			return value.Array([]value.Value{args[0]})
		}
		if !e.Grow(len(list[0]) + 48*strings.Count(list[0], list[1])) {
			return value.Value{}
		}
		var parts []value.Value
		for _, s := range strings.Split(list[0], list[1]) {
			parts = append(parts, value.String(s))
		}
		return value.Array(parts)
	})
	add("TOSTRING", 1, 1, func(e *Env, args []value.Value) value.Value {
		v := args[0]
		if s, ok := v.Text(); ok {
			return value.String(s)
		}
		f, isNumber := v.Number()
		switch {
		case v.IsUndefined():
			return value.Value{}
		case isNumber && math.IsNaN(f):
			return value.String("NaN")
		case isNumber && math.IsInf(f, 1):
			return value.String("Infinity")
		case isNumber && math.IsInf(f, -1):
			return value.String("-Infinity")
		}
		if !e.Grow(int(v.Size())) {
			return value.Value{}
		}
		text := v.Append(nil)
		if v.IsArray() || v.IsObject() {
			var b bytes.Buffer
			if json.Compact(&b, text) == nil {
				text = b.Bytes()
			}
		}
		return value.String(string(text))
	})
	parsed := func(name string, kind jsondoc.Kind) {
		ofString(name, func(e *Env, s string) value.Value {
			if !e.Grow(len(s)) {
				return value.Value{}
			}
			text := []byte(s)
			if !json.Valid(text) || !mayStore(text) {
				return value.Value{}
			}
			v := value.Parse(text)
			if v.Kind() != kind {
				return value.Value{}
			}
			return v
		})
	}
	parsed("STRINGTOARRAY", jsondoc.KindArray)
	parsed("STRINGTOOBJECT", jsondoc.KindObject)
	parsed("STRINGTOBOOLEAN", jsondoc.KindBool)
	parsed("STRINGTONULL", jsondoc.KindNull)
	ofString("STRINGTONUMBER", func(_ *Env, s string) value.Value {
		s = strings.Trim(s, space)
		switch s {
		case "NaN":
			return value.Number(math.NaN())
		case "Infinity":
			return value.Number(math.Inf(1))
		case "-Infinity":
			return value.Number(math.Inf(-1))
		}
		if !json.Valid([]byte(s)) {
			return value.Value{}
		}
		if v := value.Parse([]byte(s)); v.Kind() == kindNumber {
			return v
		}
		return value.Value{}
	})
}

var scanners = sync.Pool{New: func() any { return new(jsondoc.Scanner) }}

// noKey are paths of a scan that looks for no partition key. They are constant, and compile.
var noKey, _ = jsondoc.Compile([]string{"/id"})

// mayStore says whether a document may have the value that a JSON text is: one that has two members of a name in an object,
// half a surrogate pair, or more levels than a document has no meaning that all readers agree on.
func mayStore(text []byte) bool {
	doc := slices.Concat([]byte(`{"id":"-","-":`), text, []byte{'}'})
	s := scanners.Get().(*jsondoc.Scanner)
	defer scanners.Put(s)
	var out jsondoc.Doc
	return s.Scan(doc, noKey, jsondoc.Limits{MaxBytes: len(doc), MaxDepth: jsondoc.DefaultMaxDepth + 1}, &out) == nil
}

// space is what trimming removes where nothing else is said.
const space = " \t\n\v\f\r\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

// maxReplicated is the length of the longest string that REPLICATE makes, in code points.
const maxReplicated = 10_000

// offset returns the byte of a string at which code point n begins, its length if it has no
// more than n.
func offset(s string, n int64) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// part returns a part of a string.
func part(s, from, length value.Value) value.Value {
	text, ok := s.Text()
	start, isInt := from.Int()
	n, isIntToo := length.Int()
	if !ok || !isInt || !isIntToo {
		return value.Value{}
	}
	if start < 0 || n <= 0 {
		return value.String("")
	}
	text = text[offset(text, start):]
	return value.String(text[:offset(text, n)])
}

func indexOf(_ *Env, args []value.Value) value.Value {
	list, ok := texts(args[:2])
	if !ok {
		return value.Value{}
	}
	skipped := 0
	if len(args) == 3 {
		from, isInt := args[2].Int()
		if !isInt || from < 0 {
			return value.Value{}
		}
		skipped = offset(list[0], from)
	}
	i := strings.Index(list[0][skipped:], list[1])
	if i < 0 {
		return value.Int(-1)
	}
	return value.Int(int64(utf8.RuneCountInString(list[0][:skipped+i])))
}

// documentID returns the number that the _rid of a document ends with.
func documentID(_ *Env, args []value.Value) value.Value {
	rid, ok := args[0].Member("_rid").Text()
	if !ok {
		return value.Value{}
	}
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid, "-", "/"))
	if err != nil || len(b) < 16 {
		return value.Value{}
	}
	return value.Int(int64(binary.LittleEndian.Uint64(b[8:])))
}

// Pattern is a pattern of LIKE, in which % stands for any text, _ for one character, and
// [a-z] and [^a-z] for one of some, or not of some. It is immutable.
type Pattern []likeElement

// Match says whether a string matches. It takes at most len(s) × len(p) steps; ok is false if
// those are too many.
func (p Pattern) Match(e *Env, s string) (matches, ok bool) {
	// After a %, the rest is tried at each place. Nothing goes back further than the last %.
	i, j, star, mark := 0, 0, -1, 0
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case j < len(p) && p[j].kind == likeAny:
			star, mark = j, i
			j++
			continue
		case j < len(p) && p[j].matches(e, r):
			i += n
			j++
			continue
		case star < 0:
			return false, true
		}
		if !e.Step(1 + j - star) {
			return false, false
		}
		_, n = utf8.DecodeRuneInString(s[mark:])
		mark += n
		i, j = mark, star+1
	}
	for j < len(p) && p[j].kind == likeAny {
		j++
	}
	return j == len(p), true
}

type likeKind uint8

const (
	likeRune likeKind = iota
	likeAny           // %
	likeOne           // _
	likeSet           // [a-z], [^a-z]
)

// likeElement is what stands for one character of a string, or for any text.
type likeElement struct {
	kind   likeKind
	r      rune
	not    bool
	ranges []rune // pairs
}

func (l *likeElement) matches(e *Env, r rune) bool {
	switch l.kind {
	case likeRune:
		return r == l.r
	case likeOne:
		return true
	case likeSet:
		e.Look(len(l.ranges))
		for i := 0; i+1 < len(l.ranges); i += 2 {
			if l.ranges[i] <= r && r <= l.ranges[i+1] {
				return !l.not
			}
		}
		return l.not
	}
	return false
}

// LikePattern reads a pattern. What follows escape, if that is not 0, stands for itself.
func LikePattern(pattern string, escape rune) Pattern {
	out := Pattern{}
	runes := []rune(pattern)
	closed := true // false: no set that begins from here on has an end
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case escape != 0 && r == escape && i+1 < len(runes):
			i++
			out = append(out, likeElement{r: runes[i]})
		case r == '%':
			if len(out) == 0 || out[len(out)-1].kind != likeAny {
				out = append(out, likeElement{kind: likeAny})
			}
		case r == '_':
			out = append(out, likeElement{kind: likeOne})
		case r == '[' && closed:
			set, n := likeRange(runes[i:])
			if closed = n > 0; !closed {
				out = append(out, likeElement{r: r})
				continue
			}
			out = append(out, set)
			i += n - 1
		default:
			out = append(out, likeElement{r: r})
		}
	}
	return out
}

// likeRange reads a set of characters; n is 0 if that is none.
func likeRange(runes []rune) (l likeElement, n int) {
	l.kind = likeSet
	i := 1
	if i < len(runes) && runes[i] == '^' {
		l.not = true
		i++
	}
	for first := true; i < len(runes); first = false {
		r := runes[i]
		if r == ']' && !first {
			return l, i + 1
		}
		to := r
		if i+2 < len(runes) && runes[i+1] == '-' && runes[i+2] != ']' {
			to = runes[i+2]
			i += 2
		}
		l.ranges = append(l.ranges, r, to)
		i++
	}
	return l, 0
}
