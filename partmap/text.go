package partmap

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// String returns the text form, "" for the zero Key. What is not printable is
// escaped, so that the text is one line and safe on a terminal.
func (k Key) String() string { return string(k.appendText(nil)) }

// MarshalText returns the text form; it fails for the zero Key.
func (k Key) MarshalText() ([]byte, error) {
	if !k.Valid() {
		return nil, refuse(ErrInvalid, 0, "the zero key has no text")
	}
	return k.appendText(nil), nil
}

func (k Key) appendText(dst []byte) []byte {
	enc := k.Encoded()
	n := componentLen(enc)
	if n == len(enc) { // also the zero Key
		return appendComponentText(dst, enc)
	}
	for sep := byte('['); len(enc) > 0; sep = ',' {
		if n = componentLen(enc); n == 0 {
			return append(dst, '?') // FromTrusted was given no encoding
		}
		dst = appendComponentText(append(dst, sep), enc[:n])
		enc = enc[n:]
	}
	return append(dst, ']')
}

func appendComponentText(dst, c []byte) []byte {
	if len(c) == 0 {
		return dst
	}
	switch c[0] &^ markVersion1 {
	case markNull:
		return append(dst, "null"...)
	case markFalse:
		return append(dst, "false"...)
	case markTrue:
		return append(dst, "true"...)
	case markNumber:
		return appendNumberText(dst, math.Float64frombits(binary.LittleEndian.Uint64(c[1:])))
	case markString:
		return appendQuoted(dst, c[1:len(c)-1])
	}
	return append(dst, "undefined"...)
}

// appendNumberText appends the shortest digits that read back as f.
func appendNumberText(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

// appendQuoted appends s as a JSON string.
func appendQuoted(dst, s []byte) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		s = s[n:]
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case strconv.IsPrint(r):
			dst = utf8.AppendRune(dst, r)
		case r > 0xFFFF:
			hi, lo := utf16.EncodeRune(r)
			dst = appendEscaped(appendEscaped(dst, hi), lo)
		default:
			dst = appendEscaped(dst, r)
		}
	}
	return append(dst, '"')
}

func appendEscaped(dst []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[unit>>12&15], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
}

// Parse reads the text form of a key, and beside what String prints: {} for
// undefined, an array of one level, every JSON escape, blanks around values. The
// error is an *Error with the offset in text.
func Parse(text string) (Key, error) {
	p := textParser{text: text}
	if err := p.key(); err != nil {
		return Key{}, err
	}
	return Key{string(p.enc)}, nil
}

// textParser reads a text form from left to right.
type textParser struct {
	text string
	at   int    // next byte of text
	enc  []byte // what was read
}

func (p *textParser) key() error {
	if !p.take('[') {
		if err := p.value(); err != nil {
			return err
		}
		return p.end()
	}
	for levels := 0; ; levels++ {
		if levels == 0 && p.take(']') {
			return refuse(ErrLevels, p.at-1, "no levels")
		}
		if levels == MaxLevels {
			return refuse(ErrLevels, p.at, "more than %d levels", MaxLevels)
		}
		if err := p.value(); err != nil {
			return err
		}
		if p.take(']') {
			return p.end()
		}
		if !p.take(',') {
			return p.refuse("expected , or ]")
		}
	}
}

// value reads one level.
func (p *textParser) value() error {
	p.blanks()
	start := p.at
	if err := p.scalar(); err != nil {
		return err
	}
	if len(p.enc) > MaxEncoded {
		return refuse(ErrTooLong, start, "encoding passes the limit of %d bytes", MaxEncoded)
	}
	return nil
}

func (p *textParser) scalar() error {
	if p.at == len(p.text) {
		return p.refuse("expected a value")
	}
	switch c := p.text[p.at]; {
	case c == '"':
		return p.str()
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case c == '{':
		p.at++
		if !p.take('}') {
			return p.refuse("an object other than {} is no level")
		}
		p.enc = AppendUndefined(p.enc)
		return nil
	case c == '[':
		return p.refuse("an array is no level")
	}
	start := p.at
	switch word := p.word(); word {
	case "undefined":
		p.enc = AppendUndefined(p.enc)
	case "null":
		p.enc = AppendNull(p.enc)
	case "false", "true":
		p.enc = AppendBool(p.enc, word == "true")
	default:
		return refuse(ErrInvalid, start, `expected "string", number, true, false, null or undefined`)
	}
	return nil
}

func (p *textParser) word() string {
	start := p.at
	for p.at < len(p.text) && 'a' <= p.text[p.at] && p.text[p.at] <= 'z' {
		p.at++
	}
	return p.text[start:p.at]
}

// number reads a number as JSON has it.
func (p *textParser) number() error {
	start := p.at
	p.accept("-")
	if !p.accept("0") && p.digits() == 0 {
		return p.refuse("expected a digit")
	}
	if p.accept(".") && p.digits() == 0 {
		return p.refuse("expected a digit")
	}
	if p.accept("eE") {
		p.accept("+-")
		if p.digits() == 0 {
			return p.refuse("expected a digit")
		}
	}
	f, err := strconv.ParseFloat(p.text[start:p.at], 64)
	if err != nil { // the syntax was checked
		return refuse(ErrInvalid, start, "number out of range")
	}
	p.enc = AppendNumber(p.enc, f)
	return nil
}

func (p *textParser) digits() (n int) {
	for p.accept("0123456789") {
		n++
	}
	return n
}

// str reads a string, which begins at a quote.
func (p *textParser) str() error {
	start := p.at
	p.at++
	p.enc = append(p.enc, markString)
	first := len(p.enc)
	for {
		if p.at == len(p.text) {
			return refuse(ErrInvalid, start, "string has no closing quote")
		}
		c := p.text[p.at]
		switch {
		case c == '"':
			p.at++
			p.enc = append(p.enc, endOfString)
			return nil
		case c == '\\':
			if err := p.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return p.refuse("control character in a string")
		case c < utf8.RuneSelf:
			p.enc = append(p.enc, c)
			p.at++
		default:
			r, n := utf8.DecodeRuneInString(p.text[p.at:])
			if r == utf8.RuneError && n == 1 {
				return p.refuse("string is not valid UTF-8")
			}
			p.enc = append(p.enc, p.text[p.at:p.at+n]...)
			p.at += n
		}
		if len(p.enc)-first > MaxString {
			return refuse(ErrTooLong, start, "string passes the limit of %d bytes", MaxString)
		}
	}
}

// escape reads an escape, which begins at a backslash.
func (p *textParser) escape() error {
	start := p.at
	if len(p.text)-p.at >= 2 {
		if i := strings.IndexByte(`"\/bfnrt`, p.text[p.at+1]); i >= 0 {
			p.enc = append(p.enc, "\"\\/\b\f\n\r\t"[i])
			p.at += 2
			return nil
		}
	}
	r, ok := p.unit()
	if ok && utf16.IsSurrogate(r) {
		var low rune
		low, ok = p.unit()
		r = utf16.DecodeRune(r, low)
		ok = ok && r != utf8.RuneError
	}
	if !ok {
		return refuse(ErrInvalid, start, "bad escape in a string")
	}
	p.enc = utf8.AppendRune(p.enc, r)
	return nil
}

// unit reads \uXXXX.
func (p *textParser) unit() (rune, bool) {
	const width = len(`\uXXXX`)
	if len(p.text)-p.at < width || p.text[p.at:p.at+2] != `\u` {
		return 0, false
	}
	v, err := strconv.ParseUint(p.text[p.at+2:p.at+width], 16, 16)
	p.at += width
	return rune(v), err == nil
}

// accept reads one byte if it is among chars.
func (p *textParser) accept(chars string) bool {
	if p.at < len(p.text) && strings.IndexByte(chars, p.text[p.at]) >= 0 {
		p.at++
		return true
	}
	return false
}

// take reads c with the blanks before it, if it is next.
func (p *textParser) take(c byte) bool {
	p.blanks()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *textParser) blanks() {
	for p.accept(" \t\r\n") {
	}
}

func (p *textParser) end() error {
	p.blanks()
	if p.at < len(p.text) {
		return p.refuse("text after the key")
	}
	return nil
}

func (p *textParser) refuse(detail string) error { return refuse(ErrInvalid, p.at, "%s", detail) }
