package function

import (
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/sql/value"
)

func addPatterns() {
	add("REGEXMATCH", 2, 3, func(e *Env, args []value.Value) value.Value {
		list, ok := texts(args)
		if !ok {
			return value.Value{}
		}
		modifiers := ""
		if len(list) == 3 {
			modifiers = list[2]
		}
		p := e.pattern(list[1], modifiers)
		if p.re == nil || !e.Step(len(list[0])/64) {
			return value.Value{}
		}
		found := p.match(e, list[0])
		if e.Err() != nil {
			return value.Value{}
		}
		return value.Bool(found)
	})
}

// pattern is a regular expression.
type pattern struct {
	re   *regexp.Regexp // nil: it is none
	size int            // of its program: instructions, each of which a rune may need
}

// Bounds of regular expressions: how long one is, how large its program, how many are kept, and their bytes: an
// instruction takes stepMemory. To compile one takes as long as looking at compileBytes.
const (
	maxPattern   = 10_000
	maxProgram   = 20_000
	maxPatterns  = 64
	maxKept      = 4 << 20
	stepMemory   = 64
	compileBytes = 1 << 12
)

// unasked is how many instructions a match may take without asking whether the evaluation must end.
const unasked = 1 << 24

// match says whether the expression matches a part of the text. It means nothing once the
// evaluation must end.
func (p pattern) match(e *Env, text string) bool {
	if most := len(text) * p.size; most <= unasked {
		return e.Look(most) && p.re.MatchString(text)
	}
	return p.re.MatchReader(&runes{e, text, p.size})
}

// runes reads the runes of a text until the evaluation must end.
type runes struct {
	env  *Env
	text string
	each int // bytes that count as looked at for a rune
}

// ReadRune implements io.RuneReader.
func (r *runes) ReadRune() (c rune, n int, err error) {
	if r.text == "" || !r.env.Look(r.each) {
		return 0, 0, io.EOF
	}
	c, n = utf8.DecodeRuneInString(r.text)
	r.text = r.text[n:]
	return c, n, nil
}

// pattern returns a regular expression.
func (e *Env) pattern(text, modifiers string) pattern {
	key := modifiers + "/" + text
	if p, ok := e.patterns[key]; ok {
		return p
	}
	var p pattern
	if strings.Trim(modifiers, "msix") == "" && len(text) <= maxPattern {
		flags := ""
		for _, m := range modifiers {
			if m == 'x' {
				text = withoutSpace(text)
			} else if !strings.ContainsRune(flags, m) {
				flags += string(m)
			}
		}
		if flags != "" {
			text = "(?" + flags + ")" + text
		}
		p = e.compile(text)
	}
	size := len(key) + stepMemory*p.size
	if len(e.patterns) >= maxPatterns || e.kept+size > maxKept || e.patterns == nil {
		e.patterns, e.kept = make(map[string]pattern), 0
	}
	if size <= maxKept {
		e.patterns[key], e.kept = p, e.kept+size
	}
	return p
}

// compile compiles an expression, if its program is not too large.
func (e *Env) compile(text string) (p pattern) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return p
	}
	if p.size = programSize(tree); p.size > maxProgram {
		e.Fail(&fault.LimitError{What: "regular expression", Unit: "steps", Size: int64(p.size), Limit: maxProgram, Kind: fault.ErrTooLarge})
	} else if e.Look(compileBytes * p.size) {
		p.re, _ = regexp.Compile(text)
	}
	return p
}

// programSize estimates how many instructions the program of an expression has: what is repeated
// is there as often.
func programSize(tree *syntax.Regexp) int {
	n := 1
	if tree.Op == syntax.OpLiteral {
		n += len(tree.Rune) // a class has one instruction, however many runes it has
	}
	for _, part := range tree.Sub {
		n += programSize(part)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(1, tree.Min, tree.Max)
	}
	return n
}

// withoutSpace leaves out the white space and the comments of a regular expression.
func withoutSpace(text string) string {
	var b strings.Builder
	escaped, class, comment := false, false, false
	for _, r := range text {
		switch {
		case comment:
			comment = r != '\n'
			continue
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case class:
			class = r != ']'
		case r == '[':
			class = true
		case r == '#':
			comment = true
			continue
		case unicode.IsSpace(r):
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
