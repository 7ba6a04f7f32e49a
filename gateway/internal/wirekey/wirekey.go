// Package wirekey reads partition keys as clients of the protocol send them, and writes them
// as change feeds show them.
package wirekey

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

// maxText bounds the header with a partition key: three levels of 2,048 bytes, each
// byte escaped.
const maxText = 64 << 10

// Parse reads a partition key as clients send it: an array of strings, numbers,
// booleans, nulls and empty objects, which stand for undefined. given is false for an
// empty array. Strings may have the escapes of JSON and those that the Go client uses,
// which are Go's.
func Parse(text string) (key engine.PartitionKey, given bool, err error) {
	p := parser{rest: text}
	if len(text) > maxText {
		return key, false, fmt.Errorf("the partition key has %d bytes, at most %d are read", len(text), maxText)
	}
	var parts []engine.PartitionKey
	p.space()
	p.take("[")
	for p.space(); p.bad == "" && !strings.HasPrefix(p.rest, "]"); p.space() {
		if len(parts) > 0 {
			p.take(",")
			p.space()
		}
		part := p.value()
		if p.bad == "" && !part.Valid() {
			p.bad = "a value is too long or not a number"
		}
		if parts = append(parts, part); len(parts) > 3 {
			p.bad = "it has more than three levels"
		}
	}
	p.take("]")
	p.space()
	if p.bad == "" && p.rest != "" {
		p.bad = "text comes after its end"
	}
	if p.bad != "" {
		return key, false, fmt.Errorf("the partition key %.200q is not valid at byte %d: %s", text, len(text)-len(p.rest), p.bad)
	}
	if len(parts) == 0 {
		return key, false, nil
	}
	if key, err = partmap.Join(parts...); err != nil { // the zero key would stand for all keys
		return key, false, fmt.Errorf("the partition key %.200q is not valid: %w", text, err)
	}
	return key, true, nil
}

type parser struct {
	rest string
	bad  string // what is wrong; "": nothing yet
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *parser) take(what string) bool {
	if p.bad == "" && strings.HasPrefix(p.rest, what) {
		p.rest = p.rest[len(what):]
		return true
	}
	if p.bad == "" {
		p.bad = what + " is missing"
	}
	return false
}

func (p *parser) value() (k engine.PartitionKey) {
	if p.bad != "" {
		return k
	}
	switch {
	case strings.HasPrefix(p.rest, "null"):
		p.take("null")
		return engine.NullKey()
	case strings.HasPrefix(p.rest, "true"):
		p.take("true")
		return engine.BoolKey(true)
	case strings.HasPrefix(p.rest, "false"):
		p.take("false")
		return engine.BoolKey(false)
	case strings.HasPrefix(p.rest, "undefined"):
		p.take("undefined")
		return engine.UndefinedKey()
	case strings.HasPrefix(p.rest, "{"):
		p.take("{")
		p.space()
		p.take("}")
		return engine.UndefinedKey()
	case strings.HasPrefix(p.rest, `"`):
		return engine.StringKey(p.text())
	}
	end := strings.IndexAny(p.rest+" ", ",] \t\r\n")
	var n json.Number
	if err := json.Unmarshal([]byte(p.rest[:end]), &n); err == nil && n != "" {
		if f, failed := n.Float64(); failed == nil {
			p.rest = p.rest[end:]
			return engine.NumberKey(f)
		}
	}
	p.bad = "neither a string, a number, true, false, null nor {}"
	return k
}

// text reads a string that begins with a quote.
func (p *parser) text() string {
	p.take(`"`)
	var b []byte
	for p.bad == "" {
		i := strings.IndexAny(p.rest, `"\`)
		if i < 0 {
			p.bad = "a string does not end"
			break
		}
		b = append(b, p.rest[:i]...)
		p.rest = p.rest[i:]
		if p.rest[0] == '"' {
			p.rest = p.rest[1:]
			break
		}
		b = p.escape(b)
	}
	if p.bad == "" && !utf8.Valid(b) {
		p.bad = "a string is not UTF-8"
	}
	return string(b)
}

// escape reads a backslash and what belongs to it.
func (p *parser) escape(b []byte) []byte {
	if strings.HasPrefix(p.rest, `\/`) {
		p.rest = p.rest[2:]
		return append(b, '/')
	}
	if strings.HasPrefix(p.rest, `\u`) && len(p.rest) >= 6 {
		// JSON writes what lies above U+FFFF as two halves, which Go does not read.
		end := 6
		if len(p.rest) >= 12 && p.rest[6:8] == `\u` {
			end = 12
		}
		for ; end > 0; end -= 6 {
			var s string
			if err := json.Unmarshal([]byte(`"`+p.rest[:end]+`"`), &s); err == nil && !strings.ContainsRune(s, utf8.RuneError) {
				p.rest = p.rest[end:]
				return append(b, s...)
			}
		}
	}
	r, multibyte, rest, err := strconv.UnquoteChar(p.rest, '"')
	if err != nil {
		p.bad = "an escape is not known"
		return b
	}
	p.rest = rest
	if r < utf8.RuneSelf || !multibyte {
		return append(b, byte(r))
	}
	return utf8.AppendRune(b, r)
}
