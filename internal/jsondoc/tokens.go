package jsondoc

import "unicode/utf8"

// Token is a kind of token of a document.
type Token uint8

// Tokens. Commas and colons are passed over.
const (
	End         Token = iota // of the document, or what no document holds
	ObjectOpen               // {
	ObjectClose              // }
	ArrayOpen                // [
	ArrayClose               // ]
	Text                     // a string: the name of a member or a value
	Number                   // a number
	True                     // true
	False                    // false
	Null                     // null
)

// Tokens reads a document that a Scan has accepted once more, token by token.
// It checks nothing: of other bytes it gives some tokens, as many as there are
// bytes at most, and ends.
type Tokens struct {
	doc        []byte
	pos        int
	start, end int // of the body of a text, or of a number
	escaped    bool
}

// Reset begins a document.
func (t *Tokens) Reset(doc []byte) { *t = Tokens{doc: doc} }

// Next returns the next token.
func (t *Tokens) Next() Token {
	doc := t.doc
	for i := t.pos; i < len(doc); i++ {
		switch c := doc[i]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		case '"':
			i++
			t.start, t.escaped = i, false
			for {
				m := special(load(doc, i))
				if m == 0 {
					i += 8
					continue
				}
				if i += firstByte(m); i >= len(doc) {
					break
				}
				stop := doc[i]
				if stop == '"' {
					t.end, t.pos = i, i+1
					return Text
				}
				if i++; stop == '\\' {
					t.escaped = true
					i++
				} else if stop >= utf8.RuneSelf {
					for i < len(doc) && doc[i] >= utf8.RuneSelf {
						i++
					}
				}
			}
			t.end, t.pos = len(doc), len(doc)
			return End
		case '{':
			t.pos = i + 1
			return ObjectOpen
		case '}':
			t.pos = i + 1
			return ObjectClose
		case '[':
			t.pos = i + 1
			return ArrayOpen
		case ']':
			t.pos = i + 1
			return ArrayClose
		case 't':
			t.pos = min(i+4, len(doc))
			return True
		case 'f':
			t.pos = min(i+5, len(doc))
			return False
		case 'n':
			t.pos = min(i+4, len(doc))
			return Null
		default:
			if c != '-' && c-'0' >= 10 {
				t.pos = len(doc)
				return End
			}
			t.start = i
			for i < len(doc) && !endsLiteral(doc[i]) {
				i++
			}
			t.end, t.pos = i, i
			return Number
		}
	}
	t.pos = len(doc)
	return End
}

// Body returns the body of a Text as it is written, or the text of a Number. It
// is valid as long as the document.
func (t *Tokens) Body() []byte { return t.doc[t.start:t.end:t.end] }

// Escaped says whether the body of a Text has escapes.
func (t *Tokens) Escaped() bool { return t.escaped }

// Unescape appends the characters of a Text's body to dst.
func (t *Tokens) Unescape(dst []byte) []byte { return unescape(dst, t.Body()) }

// Offset returns the offset behind the last token.
func (t *Tokens) Offset() int { return t.pos }

// Float returns the double nearest to the Number; beyond the range of doubles it
// is infinite.
func (t *Tokens) Float() float64 { return Float(t.Body()) }
