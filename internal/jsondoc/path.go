package jsondoc

import (
	"errors"
	"fmt"
	"math"
	"slices"
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
// /address/city, /tags/[], /"a/b"/c. String puts names with commas in quotes too.
func ParsePath(text string) (Path, error) {
	p, err := parsePath(text)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", Clip(text), err)
	}
	return p, nil
}

// parsePath is ParsePath, whose errors do not repeat the text.
func parsePath(text string) (p Path, err error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("is not valid UTF-8")
	}
	for rest := text; len(p) == 0 || rest != ""; {
		var ok bool
		if rest, ok = strings.CutPrefix(rest, "/"); !ok {
			return nil, errors.New("each step must begin with a slash")
		}
		if len(p) == maxSteps {
			return nil, fmt.Errorf("has more than %d steps", maxSteps)
		}
		if strings.HasPrefix(rest, `"`) {
			end, _, f := restOfString([]byte(rest), 1)
			if f != nil {
				return nil, fmt.Errorf("bad string: %s", f.msg)
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
			return nil, errors.New("has an empty name, which must be in quotes")
		case "[]":
			p = append(p, Step{Element: true})
		case "?", "*":
			return nil, fmt.Errorf("%s belongs to index policies", name)
		default:
			p = append(p, Step{Name: name})
		}
	}
	return p, nil
}

// KeyPath returns a path of a partition key that Compile accepts.
func KeyPath(text string) Path {
	p, _ := parseKeyPath(text) // Compile gives the error
	return p
}

// parseKeyPath is ParsePath for a path of a partition key, which leads through members
// only.
func parseKeyPath(text string) (Path, error) {
	p, err := parsePath(text)
	if err == nil && p.Many() {
		err = errors.New("[] belongs to index paths; a partition key path names members only")
	}
	if err != nil {
		return nil, fmt.Errorf("partition key path %q: %w", Clip(text), err)
	}
	return p, nil
}

// SplitPaths returns the paths of lists with commas between them, as flags have them. A
// comma within quotes belongs to a name.
func SplitPaths(lists ...string) (paths []string) {
	for _, list := range lists {
		start, quoted := 0, false
		for i := 0; i < len(list); i++ {
			switch c := list[i]; {
			case quoted && c == '\\':
				i++ // what follows ends no name
			case c == '"' && (quoted || i > start && list[i-1] == '/'):
				quoted = !quoted
			case c == ',' && !quoted:
				paths, start = append(paths, list[start:i]), i+1
			}
		}
		paths = append(paths, list[start:])
	}
	return paths
}

// JoinPaths returns the list of which SplitPaths makes these paths.
func JoinPaths(paths []string) string {
	list := make([]string, len(paths))
	for i, text := range paths {
		list[i] = text
		if p, err := ParsePath(text); err == nil && strings.Contains(text, ",") {
			list[i] = p.String()
		}
	}
	return strings.Join(list, ",")
}

// SamePaths says whether two lists have the same paths, however they are written.
func SamePaths(x, y []string) bool {
	return slices.EqualFunc(x, y, func(x, y string) bool {
		p, errX := ParsePath(x)
		q, errY := ParsePath(y)
		return x == y || errX == nil && errY == nil && slices.Equal(p, q)
	})
}

// String returns the text form.
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		switch {
		case s.Element:
			b.WriteString("[]")
		case s.Name == "" || s.Name == "[]" || s.Name == "?" || s.Name == "*" || s.Name[0] == '"' || strings.ContainsAny(s.Name, "/,"):
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
