package syntax

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

type kind uint8

const (
	end kind = iota
	word
	number
	text
	parameter
	sign
)

// token is a word of a query: of a string without quotes and escapes, of a parameter without
// its @.
type token struct {
	kind   kind
	at     int
	text   string
	upper  string // of a word of the grammar, in capitals
	number float64
}

func (t *token) found() string {
	switch t.kind {
	case end:
		return "the end"
	case text:
		return "the string " + strconv.Quote(jsondoc.Clip(t.text))
	case parameter:
		return "@" + jsondoc.Clip(t.text)
	}
	return jsondoc.Clip(t.text)
}

// signLen returns the length of the sign with which a text begins, 0 for none.
func signLen(text string) int {
	if strings.HasPrefix(text, ">>>") {
		return 3
	}
	if len(text) > 1 {
		switch text[:2] {
		case "<=", ">=", "<>", "!=", "||", "??", "<<", ">>":
			return 2
		}
	}
	if strings.IndexByte("<>=()[]{},.:*/%+-?|^&~!", text[0]) >= 0 {
		return 1
	}
	return 0
}

// keywords are the words of the grammar.
var keywords = func() map[string]string {
	m := make(map[string]string)
	for word := range reserved {
		m[word] = word
	}
	for word := range constants {
		m[word] = word
	}
	for _, word := range []string{"TOP", "VALUE", "ARRAY", "UDF", "RANK"} {
		m[word] = word
	}
	return m
}()

// keyword returns a word of the grammar in capitals, "" for another word.
func keyword(word string) string {
	var b [9]byte // INFINITY, UNDEFINED
	if len(word) > len(b) {
		return ""
	}
	for i := range len(word) {
		b[i] = word[i]
		if 'a' <= b[i] && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	return keywords[string(b[:len(word)])]
}

// skip passes over white space and comments.
func (p *parser) skip() error {
	for p.pos < len(p.text) {
		rest := p.text[p.pos:]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			p.pos++
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			p.pos += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return p.errorf(p.pos, "the comment has no end: expected */")
			}
			p.pos += n + 4
		default:
			r, n := utf8.DecodeRuneInString(rest)
			if r < utf8.RuneSelf || !unicode.IsSpace(r) && r != '\ufeff' {
				return nil
			}
			p.pos += n
		}
	}
	return nil
}

// next reads the token after the present one.
func (p *parser) next() error {
	p.ended = p.pos
	if err := p.skip(); err != nil {
		return err
	}
	t := token{at: p.pos}
	if p.pos == len(p.text) {
		p.tok = t
		return nil
	}
	var err error
	switch c := p.text[p.pos]; {
	case c == '"' || c == '\'':
		err = p.str(&t, c)
	case '0' <= c && c <= '9', c == '.' && p.pos+1 < len(p.text) && '0' <= p.text[p.pos+1] && p.text[p.pos+1] <= '9' && !p.afterValue():
		err = p.num(&t)
	case c == '@':
		p.pos++
		if t.text = p.word(true); t.text == "" {
			return p.errorf(t.at, "expected the name of a parameter after @")
		}
		t.kind = parameter
	default:
		if t.text = p.word(false); t.text != "" {
			t.kind, t.upper = word, keyword(t.text)
			break
		}
		t.kind = sign
		if n := signLen(p.text[p.pos:]); n > 0 {
			t.text = p.text[p.pos : p.pos+n]
			p.pos += n
			break
		}
		r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
		return p.errorf(t.at, "unexpected character %q", r)
	}
	p.tok = t
	return err
}

// afterValue says that the present token ends a value, so that a dot selects a member of it.
func (p *parser) afterValue() bool {
	return p.tok.kind == word || p.tok.kind == parameter || p.tok.kind == text || p.tok.kind == sign && (p.tok.text == ")" || p.tok.text == "]" || p.tok.text == "}")
}

// upper returns an ASCII word in capitals.
func upper(s string) string {
	for i := range len(s) {
		if 'a' <= s[i] && s[i] <= 'z' {
			b := []byte(s)
			for j, c := range b {
				if 'a' <= c && c <= 'z' {
					b[j] = c - 'a' + 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// word reads letters, digits, _ and $; digits first only where digits says so.
func (p *parser) word(digits bool) string {
	start := p.pos
	for p.pos < len(p.text) {
		if c := p.text[p.pos]; c|0x20 >= 'a' && c|0x20 <= 'z' {
			p.pos++
			continue
		}
		r, n := utf8.DecodeRuneInString(p.text[p.pos:])
		if !(r == '_' || r == '$' || unicode.IsLetter(r) || (digits || p.pos > start) && (unicode.IsDigit(r) || unicode.IsMark(r))) {
			break
		}
		p.pos += n
	}
	return p.text[start:p.pos]
}

// num reads a number without a sign: decimal, or hexadecimal after 0x.
func (p *parser) num(t *token) error {
	start := p.pos
	t.kind = number
	if rest := p.text[start:]; len(rest) > 2 && rest[0] == '0' && rest[1]|0x20 == 'x' {
		p.pos += 2
		digits := p.pos
		for p.pos < len(p.text) && strings.IndexByte("0123456789abcdefABCDEF", p.text[p.pos]) >= 0 {
			p.pos++
		}
		u, err := strconv.ParseUint(p.text[digits:p.pos], 16, 64)
		if err != nil {
			return p.errorf(start, "expected at most 16 hexadecimal digits after 0x")
		}
		t.text, t.number = p.text[start:p.pos], float64(u)
	} else {
		digits := func() bool {
			from := p.pos
			for p.pos < len(p.text) && '0' <= p.text[p.pos] && p.text[p.pos] <= '9' {
				p.pos++
			}
			return p.pos > from
		}
		ok := digits()
		if p.pos < len(p.text) && p.text[p.pos] == '.' {
			p.pos++
			ok = digits() || ok
		}
		if p.pos < len(p.text) && p.text[p.pos]|0x20 == 'e' {
			p.pos++
			if p.pos < len(p.text) && (p.text[p.pos] == '+' || p.text[p.pos] == '-') {
				p.pos++
			}
			ok = digits() && ok
		}
		if !ok {
			return p.errorf(p.pos, "expected a digit in the number")
		}
		t.text = p.text[start:p.pos]
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil && !math.IsInf(f, 0) {
			return p.errorf(start, "not a number")
		}
		t.number = f
	}
	if at := p.pos; p.word(false) != "" {
		return p.errorf(at, "expected an end of the number %s, found a letter", jsondoc.Clip(t.text))
	}
	return nil
}

// str reads a string in single or double quotes. It has the escapes of JSON; a doubled
// quote stands for one.
func (p *parser) str(t *token, quote byte) error {
	t.kind = text
	p.pos++
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos] != quote && p.text[p.pos] != '\\' {
		p.pos++
	}
	if p.pos < len(p.text) && p.text[p.pos] == quote && !(p.pos+1 < len(p.text) && p.text[p.pos+1] == quote) {
		t.text = p.text[start:p.pos]
		p.pos++
		return nil
	}
	var b strings.Builder
	b.WriteString(p.text[start:p.pos])
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; c {
		case quote:
			p.pos++
			if p.pos == len(p.text) || p.text[p.pos] != quote {
				t.text = b.String()
				return nil
			}
			b.WriteByte(quote)
			p.pos++
		case '\\':
			r, n := escape(p.text[p.pos:])
			if n == 0 {
				return p.errorf(p.pos, "expected an escape of JSON after \\")
			}
			b.WriteRune(r)
			p.pos += n
		default:
			b.WriteByte(c)
			p.pos++
		}
	}
	return p.errorf(t.at, "the string has no closing quote")
}

// escape reads an escape and returns the number of its bytes, 0 for what is none.
func escape(s string) (rune, int) {
	if len(s) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"'\/bfnrt`, s[1]); i >= 0 {
		return rune("\"'\\/\b\f\n\r\t"[i]), 2
	}
	unit := func(s string) (rune, bool) {
		if len(s) < 6 || s[:2] != `\u` {
			return 0, false
		}
		n, err := strconv.ParseUint(s[2:6], 16, 16)
		return rune(n), err == nil
	}
	r, ok := unit(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, ok := unit(s[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}
