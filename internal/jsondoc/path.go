package jsondoc

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path leads from the root of a document to values: through the members that
// its steps name, and through all elements of an array where a step says so.
type Path []Step

// Step is one step of a Path.
type Step struct {
	Name    string // of a member of an object
	Element bool   // each element of an array; Name is empty
}

// maxQuoted is how much of what somebody has written an error repeats, in bytes.
const maxQuoted = 64

// Clip returns a text for an error: the beginning of a long one.
func Clip(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	n := maxQuoted
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// maxSteps is the length of the longest path that leads anywhere.
const maxSteps = DefaultMaxDepth

// ParsePath reads the text form of a path: each step after a slash, [] for each
// element of an array, a name as it is or, if it has a slash, begins with a
// quote or could be taken for something else, as a JSON string:
// /address/city, /tags/[], /"a/b"/c.
func ParsePath(text string) (Path, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("path %q: is not valid UTF-8", Clip(text))
	}
	var p Path
	for rest := text; len(p) == 0 || rest != ""; {
		var ok bool
		if rest, ok = strings.CutPrefix(rest, "/"); !ok {
			return nil, fmt.Errorf("path %q: each step must begin with a slash", Clip(text))
		}
		if len(p) == maxSteps {
			return nil, fmt.Errorf("path of more than %d steps", maxSteps)
		}
		if strings.HasPrefix(rest, `"`) {
			end, _, f := restOfString([]byte(rest), 1)
			if f != nil {
				return nil, fmt.Errorf("path %q: bad string: %s", Clip(text), f.msg)
			}
			p = append(p, Step{Name: string(unescape(nil, []byte(rest[1:end])))})
			rest = rest[end+1:]
			continue
		}
		name := rest
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			name = rest[:i]
		}
		rest = rest[len(name):]
		switch name {
		case "":
			return nil, fmt.Errorf("path %q: has an empty name, which must be in quotes", Clip(text))
		case "[]":
			p = append(p, Step{Element: true})
		case "?", "*":
			return nil, fmt.Errorf("path %q: %s belongs to index policies", Clip(text), name)
		default:
			p = append(p, Step{Name: name})
		}
	}
	return p, nil
}

// KeyPath returns a path of a partition key definition, as Compile takes it, whose
// names are literal.
func KeyPath(text string) (p Path) {
	for name := range strings.SplitSeq(strings.TrimPrefix(text, "/"), "/") {
		p = append(p, Step{Name: name})
	}
	return p
}

// String returns the text form.
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		switch {
		case s.Element:
			b.WriteString("[]")
		case s.Name == "" || s.Name == "[]" || s.Name == "?" || s.Name == "*" || s.Name[0] == '"' || strings.ContainsAny(s.Name, "/"):
			b.Write(AppendString(nil, s.Name))
		default:
			b.WriteString(s.Name)
		}
	}
	return b.String()
}

// Many says that the path can lead to several values of one document.
func (p Path) Many() bool {
	for _, s := range p {
		if s.Element {
			return true
		}
	}
	return false
}

// AppendString appends s, which must be valid UTF-8, as a JSON string.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, `\u00`...)
			dst = append(dst, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// AppendNumber appends the shortest JSON number that reads back as f; one that
// is infinite reads back as such.
func AppendNumber(dst []byte, f float64) []byte {
	switch {
	case f > math.MaxFloat64:
		return append(dst, "1e999"...)
	case f < -math.MaxFloat64:
		return append(dst, "-1e999"...)
	}
	format := byte('f')
	if abs := max(f, -f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}
