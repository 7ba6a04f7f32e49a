package index

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Path leads from the root of a document to values: names of members, and
// elements of arrays, whichever position they have. The zero value is the root.
type Path struct {
	steps string // encoded, as in a term
}

// Bytes of an encoded path. A name has no byte 0, which is why it sorts before
// all names that it begins.
const (
	pathEnd     = 0x01
	pathMember  = 0x02 // then the name, escaped, and nameEnd
	pathElement = 0x03
	nameEnd     = 0x00
	nameEscape  = 0x01 // then 1 for the byte 0, 2 for the byte 1
)

// maxPath is the length of an encoded path up to which values at it are indexed.
const maxPath = 1 << 10

// Member returns the path of a member of the objects at p.
func (p Path) Member(name string) Path {
	return Path{p.steps + string(appendMember(nil, []byte(name)))}
}

// Element returns the path of the elements of the arrays at p.
func (p Path) Element() Path { return Path{p.steps + string(rune(pathElement))} }

// HasElement says whether the path leads through elements of arrays: only then
// has one document several values at it.
func (p Path) HasElement() bool {
	for _, step := range p.split() {
		if step == "" {
			return true
		}
	}
	return false
}

func appendMember(dst, name []byte) []byte {
	dst = append(dst, pathMember)
	if bytes.IndexByte(name, 0) < 0 && bytes.IndexByte(name, nameEscape) < 0 {
		return append(append(dst, name...), nameEnd)
	}
	for _, c := range name {
		if c <= nameEscape {
			dst = append(dst, nameEscape)
			c++
		}
		dst = append(dst, c)
	}
	return append(dst, nameEnd)
}

// split returns the steps: encoded names without their ends, and "" for an
// element. The name of no characters is "\x00".
func (p Path) split() []string {
	var steps []string
	for rest := p.steps; rest != ""; {
		if rest[0] == pathElement {
			steps, rest = append(steps, ""), rest[1:]
			continue
		}
		name, after, _ := strings.Cut(rest[1:], string(rune(nameEnd)))
		if name == "" {
			name = string(rune(nameEnd))
		}
		steps, rest = append(steps, name), after
	}
	return steps
}

// stepName returns the name of a step of split.
func stepName(step string) string {
	if step == string(rune(nameEnd)) {
		return ""
	}
	if !strings.Contains(step, string(rune(nameEscape))) {
		return step
	}
	var name strings.Builder
	for i := 0; i < len(step); i++ {
		c := step[i]
		if c == nameEscape && i+1 < len(step) {
			i++
			c = step[i] - 1
		}
		name.WriteByte(c)
	}
	return name.String()
}

// String returns the form that ParsePath reads.
func (p Path) String() string {
	if p.steps == "" {
		return "/"
	}
	var text strings.Builder
	for _, step := range p.split() {
		text.WriteByte('/')
		if step == "" {
			text.WriteString("[]")
			continue
		}
		text.WriteString(quoteName(stepName(step)))
	}
	return text.String()
}

// quoteName puts a name in quotes if it cannot stand in a path without, or not in a list of paths with their orders.
func quoteName(name string) string {
	switch name {
	case "", "?", "*", "[]":
		return `"` + name + `"`
	}
	if !strings.ContainsAny(name, "/\"\\, ") {
		return name
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// ParsePath reads a path: "/" is the root, "/a/b" the member b of the member a,
// "/tags/[]" an element of the array tags. A name in quotes may hold slashes;
// quotes and backslashes in it follow a backslash.
func ParsePath(text string) (Path, error) {
	steps, err := splitPath(text)
	if err != nil {
		return Path{}, fmt.Errorf("path %q: %w", text, err)
	}
	var p Path
	for _, s := range steps {
		switch {
		case s.element:
			p = p.Element()
		case s.wild:
			return Path{}, fmt.Errorf("path %q: %q belongs to the patterns of a policy", text, s.name)
		default:
			p = p.Member(s.name)
		}
	}
	return p, nil
}

// pathStep is a step of a path or pattern as it is written.
type pathStep struct {
	name    string
	element bool
	wild    bool // ? or *
}

func splitPath(text string) ([]pathStep, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("is not valid UTF-8")
	}
	if text == "/" {
		return nil, nil
	}
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("must begin with a slash")
	}
	var steps []pathStep
	for rest := text; rest != ""; {
		rest = rest[1:] // the slash
		var s pathStep
		if strings.HasPrefix(rest, `"`) {
			var err error
			if s.name, rest, err = unquoteName(rest); err != nil {
				return nil, err
			}
			if rest != "" && rest[0] != '/' {
				return nil, fmt.Errorf("a slash must follow the name in quotes")
			}
		} else {
			end := strings.IndexByte(rest, '/')
			if end < 0 {
				end = len(rest)
			}
			s.name, rest = rest[:end], rest[end:]
			if s.name == "" {
				return nil, fmt.Errorf("has an empty name; if it is meant, put it in quotes")
			}
			s.element = s.name == "[]"
			s.wild = s.name == "?" || s.name == "*"
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// unquoteName reads the name in quotes at the start of text.
func unquoteName(text string) (name, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], nil
		case '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", "", fmt.Errorf("only quotes and backslashes follow a backslash")
			}
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("a quote does not end")
}
