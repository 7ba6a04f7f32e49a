package query

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenNumber
	tokenString
	tokenParameter
	tokenSign
)

// token is a word of a query: its text, of a string without quotes and escapes,
// of a parameter without its @.
type token struct {
	kind   tokenKind
	at     int // offset
	text   string
	number float64
}

func (t *token) describe() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenString:
		return strconv.Quote(jsondoc.Clip(t.text))
	case tokenParameter:
		return "@" + jsondoc.Clip(t.text)
	}
	return jsondoc.Clip(t.text)
}

// found describes a token where another one is expected.
func (t *token) found() string {
	if t.kind == tokenSign && (t.text == "-" || t.text == "*") {
		return t.text + "; arithmetic is not offered: " + noCompute
	}
	if t.kind == tokenSign && t.text == "[" {
		return t.text + "; " + signsNotOffered['{']
	}
	return t.describe()
}

// lexer cuts a text into tokens.
type lexer struct {
	text string
	pos  int
}

// lexError says where no token is.
type lexError struct {
	at  int
	msg string
}

func (e lexError) Error() string { return e.msg }

// scan returns the next token.
func (l *lexer) scan() (token, error) {
	for l.pos < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.pos]) >= 0 {
		l.pos++
	}
	t := token{at: l.pos}
	if l.pos == len(l.text) {
		return t, nil
	}
	switch c := l.text[l.pos]; {
	case c == '"' || c == '\'':
		return l.str(t, c)
	case '0' <= c && c <= '9':
		return l.num(t)
	case c == '@':
		l.pos++
		if t.text = l.word(); t.text == "" {
			return t, lexError{t.at, "@ without the name of a parameter"}
		}
		t.kind = tokenParameter
		return t, nil
	}
	if t.text = l.word(); t.text != "" {
		t.kind = tokenWord
		return t, nil
	}
	t.kind = tokenSign
	for _, sign := range []string{"<=", ">=", "<>", "!=", "<", ">", "=", "(", ")", "[", "]", ",", ".", "*", "-"} {
		if strings.HasPrefix(l.text[l.pos:], sign) {
			t.text = sign
			l.pos += len(sign)
			return t, nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.text[l.pos:])
	if instead, ok := signsNotOffered[r]; ok {
		return t, lexError{t.at, string(r) + " is not offered: " + instead}
	}
	return t, lexError{t.at, "unexpected character " + strconv.QuoteRune(r)}
}

// word reads letters, digits, _ and $; not digits first.
func (l *lexer) word() string {
	start := l.pos
	for l.pos < len(l.text) {
		r, n := utf8.DecodeRuneInString(l.text[l.pos:])
		if !(r == '_' || r == '$' || unicode.IsLetter(r) || l.pos > start && (unicode.IsDigit(r) || unicode.IsMark(r))) {
			break
		}
		l.pos += n
	}
	return l.text[start:l.pos]
}

// num reads a number, without a sign, as JSON has it; zeros may come first.
func (l *lexer) num(t token) (token, error) {
	start := l.pos
	digits := func() bool {
		from := l.pos
		for l.pos < len(l.text) && '0' <= l.text[l.pos] && l.text[l.pos] <= '9' {
			l.pos++
		}
		return l.pos > from
	}
	ok := digits()
	if l.pos < len(l.text) && l.text[l.pos] == '.' {
		l.pos++
		ok = ok && digits()
	}
	if l.pos < len(l.text) && l.text[l.pos]|0x20 == 'e' {
		l.pos++
		if l.pos < len(l.text) && (l.text[l.pos] == '+' || l.text[l.pos] == '-') {
			l.pos++
		}
		ok = ok && digits()
	}
	if !ok {
		return t, lexError{l.pos, "a digit must follow in the number"}
	}
	if l.word() != "" {
		return t, lexError{start, "a number ends with a letter"}
	}
	t.kind, t.text = tokenNumber, l.text[start:l.pos]
	f, err := strconv.ParseFloat(t.text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return t, lexError{start, "not a number"}
	}
	t.number = f
	return t, nil
}

// str reads a string in single or double quotes, with the escapes of JSON and
// that of the single quote.
func (l *lexer) str(t token, quote byte) (token, error) {
	var b strings.Builder
	for l.pos++; ; {
		if l.pos == len(l.text) {
			return t, lexError{t.at, "the string has no closing quote"}
		}
		c := l.text[l.pos]
		switch c {
		case quote:
			l.pos++
			t.kind, t.text = tokenString, b.String()
			return t, nil
		case '\\':
			r, ok := l.escape()
			if !ok {
				return t, lexError{l.pos, "bad escape in a string"}
			}
			b.WriteRune(r)
		default:
			b.WriteByte(c)
			l.pos++
		}
	}
}

// escape reads an escape; false leaves the position at its beginning.
func (l *lexer) escape() (rune, bool) {
	rest := l.text[l.pos:]
	if len(rest) < 2 {
		return 0, false
	}
	if i := strings.IndexByte(`"'\/bfnrt`, rest[1]); i >= 0 {
		l.pos += 2
		return rune("\"'\\/\b\f\n\r\t"[i]), true
	}
	unit := func(s string) (rune, bool) {
		if len(s) < 6 || s[:2] != `\u` {
			return 0, false
		}
		n, err := strconv.ParseUint(s[2:6], 16, 16)
		return rune(n), err == nil
	}
	r, ok := unit(rest)
	if !ok {
		return 0, false
	}
	if !utf16.IsSurrogate(r) {
		l.pos += 6
		return r, true
	}
	low, ok := unit(rest[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, false
	}
	l.pos += 12
	return r, true
}
