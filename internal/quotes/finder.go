package quotes

import "unicode/utf8"

// MinLen is the length of the shortest text that a Finder takes, in bytes.
const MinLen = 128

// None stands in Pairs behind the last pair. It is no offset: a text has less than 2³¹-1
// bytes.
const None = 1<<32 - 1

const (
	window = 2048 // bytes that are looked at together, a multiple of 64
	excess = 32   // offsets written behind the last quote, at most
)

// A Finder finds the strings of one text after the other. The zero value is ready for
// Start. It must not be copied while in use.
type Finder struct {
	// Pairs has the offsets of quotes: of one that opens a string, then of the one that
	// closes it. Behind the last pair is None.
	Pairs [window + 2 + excess]uint32
	// Escapes says that a string from the beginning of the text to the last of Pairs
	// may have an escape.
	Escapes bool

	doc     []byte
	at      int    // what is before it has been looked at
	open    uint32 // the quote that opens a string whose end is not in Pairs
	pending bool   // there is an open one
	checked int    // escapes before this offset have been checked

	// What the assembly reads and writes.
	n       int // quotes in Pairs
	carry   int // what a block needs to know of those before it
	escaped int // escapes of this window
	escapes [window/2 + 1]uint32
}

// Start begins with a text of MinLen bytes or more, and looks at the beginning. The Finder
// refers to doc until Release. It returns false if it has seen a flaw.
func (f *Finder) Start(doc []byte) bool {
	f.doc, f.at, f.pending, f.checked = doc, 0, false, 0
	f.n, f.carry, f.Escapes = 0, 0, false
	f.Pairs[0] = None
	return f.Next()
}

// Release lets go of the text.
func (f *Finder) Release() { f.doc = nil }

// Next replaces Pairs by the pairs after them: none if the text has no more. It returns
// false if it has seen a flaw.
func (f *Finder) Next() bool {
	f.n = 0
	if f.pending {
		f.Pairs[0], f.n, f.pending = f.open, 1, false
	}
	for f.n < 2 && f.at < len(f.doc) {
		to := min(f.at+window, len(f.doc))
		if !find(f, &f.doc[0], f.at, to) || f.escaped > 0 && !f.checkEscapes() {
			return false
		}
		f.at = to
	}
	if f.n&1 != 0 {
		f.open, f.pending = f.Pairs[f.n-1], true
	}
	f.Pairs[f.n&^1] = None
	return true
}

// checkEscapes checks the escapes of a window.
func (f *Finder) checkEscapes() bool {
	f.Escapes = true
	for _, at := range f.escapes[:f.escaped] {
		if int(at) < f.checked {
			continue // the second half of a pair of surrogates
		}
		n := escapeLen(f.doc[at:])
		if n == 0 {
			return false
		}
		f.checked = int(at) + n
	}
	return true
}

// escapeLen returns the length of the escape that s begins with, 12 for a pair of
// surrogates, or 0 if it is not well formed.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
	default:
		return 0
	}
	unit, ok := hex4(s[2:])
	switch {
	case !ok:
		return 0
	case unit&0xF800 != 0xD800:
		return 6
	case unit >= 0xDC00 || len(s) < 12 || s[6] != '\\' || s[7] != 'u':
		return 0
	}
	if unit, ok = hex4(s[8:]); !ok || unit&0xFC00 != 0xDC00 {
		return 0
	}
	return 12
}

// hex4 returns the value of the four hexadecimal digits that s begins with.
func hex4(s []byte) (unit rune, ok bool) {
	if len(s) < 4 {
		return utf8.RuneError, false
	}
	for _, c := range s[:4] {
		switch {
		case c-'0' < 10:
			c -= '0'
		case c|0x20-'a' < 6:
			c = c | 0x20 - 'a' + 10
		default:
			return utf8.RuneError, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}

// Turn is for a caller that has met a quote at an offset where Pairs[q] is another one. If
// Pairs is used up and the next pairs begin with that quote, it replaces Pairs by them.
func (f *Finder) Turn(q, at int) bool {
	return f.Pairs[q] == None && f.Next() && int(f.Pairs[0]) == at
}
