package jsondoc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// Eight bytes of a string are looked at together, the first in the lowest bits.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// load returns the 8 bytes at i, zeros after the end of doc. Zeros are control
// characters, so every search ends there at the latest.
func load(doc []byte, i int) uint64 {
	if i > len(doc)-8 {
		return loadTail(doc, i)
	}
	return loadFast(doc, i)
}

// loadFast is load for i <= len(doc)-8, which the caller has checked.
func loadFast(doc []byte, i int) uint64 {
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(doc)), i)
	return binary.LittleEndian.Uint64((*[8]byte)(p)[:])
}

// loadTail is load for i > len(doc)-8.
func loadTail(doc []byte, i int) (w uint64) {
	if last := len(doc) - 8; last >= 0 {
		return loadFast(doc, last) >> (8 * uint(i-last))
	}
	for j := len(doc) - 1; j >= i; j-- {
		w = w<<8 | uint64(doc[j])
	}
	return w
}

// special marks, by its high bit, the first byte of w that is a quote, a
// backslash, a control character or not ASCII; 0 if there is none. Marks above
// the first may be wrong.
//
// XOR 2 moves the quote (22) to 20 and keeps the control characters below 20,
// so one subtraction finds both by its borrow.
func special(w uint64) uint64 {
	return (((w ^ 0x02*ones) - 0x21*ones) | ((w ^ '\\'*ones) - ones) | w) & highs
}

// firstByte returns the index of the first byte marked in m, which is not 0.
func firstByte(m uint64) int { return bits.TrailingZeros64(m) >> 3 }

// restOfString scans a string from i, somewhere inside it, to its closing
// quote, whose offset it returns. With a flaw it returns that one's offset.
func restOfString(doc []byte, i int) (end int, escaped bool, f *flaw) {
	for {
		m := special(load(doc, i))
		if m == 0 {
			i += 8
			continue
		}
		i += firstByte(m)
		if i >= len(doc) {
			return len(doc), escaped, flawEnd
		}
		switch c := doc[i]; {
		case c == '"':
			return i, escaped, nil
		case c >= utf8.RuneSelf:
			for i < len(doc) && doc[i] >= utf8.RuneSelf {
				n := runeLen(doc, i)
				if n == 0 {
					return i, escaped, flawUTF8
				}
				i += n
			}
		case c == '\\':
			n, f := escapeLen(doc, i)
			if f != nil {
				return i, escaped, f
			}
			escaped = true
			i += n
		default:
			return i, escaped, flawControl
		}
	}
}

// runeLen returns the length of the character at i, which is not ASCII; 0 if it
// is none.
func runeLen(doc []byte, i int) int {
	if i+4 > len(doc) {
		if r, n := utf8.DecodeRune(doc[i:]); r != utf8.RuneError || n > 1 {
			return n
		}
		return 0
	}
	// The first byte is in the lowest bits.
	v := binary.LittleEndian.Uint32(doc[i:])
	switch {
	case v&0x00C0C0F0 == 0x008080E0:
		// Not below U+0800, not U+D800 to U+DFFF.
		if p := v & 0x0000200F; p != 0 && p != 0x0000200D {
			return 3
		}
	case v&0x0000C0E0 == 0x000080C0:
		if v&0x0000001E != 0 { // not below U+0080
			return 2
		}
	case v&0xC0C0C0F8 == 0x808080F0:
		// U+10000 to U+10FFFF: bits 16 and up are 1 to 16.
		if p := v&7<<2 | v>>12&3; p != 0 && p <= 16 {
			return 4
		}
	}
	return 0
}

// escapeLen returns the length of the escape at i, 12 for a pair of surrogates.
func escapeLen(doc []byte, i int) (int, *flaw) {
	if i+1 >= len(doc) {
		return 0, flawEnd
	}
	switch doc[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
	default:
		return 0, flawEscape
	}
	r, f := hex4(doc, i+2)
	if f != nil || r&0xF800 != 0xD800 {
		return 6, f
	}
	if r >= 0xDC00 {
		return 0, flawSurrogate
	}
	if i+6 >= len(doc) {
		return 0, flawEnd
	}
	if doc[i+6] != '\\' || i+7 < len(doc) && doc[i+7] != 'u' {
		return 0, flawSurrogate
	}
	low, f := hex4(doc, i+8)
	if f == nil && low&0xFC00 != 0xDC00 {
		f = flawSurrogate
	}
	return 12, f
}

// hex4 returns the value of the four hexadecimal digits at i.
func hex4(doc []byte, i int) (r rune, f *flaw) {
	for end := i + 4; i < end; i++ {
		if i >= len(doc) {
			return 0, flawEnd
		}
		c := doc[i]
		switch {
		case c-'0' < 10:
			c -= '0'
		case c|0x20-'a' < 6:
			c = c | 0x20 - 'a' + 10
		default:
			return 0, flawHex
		}
		r = r<<4 | rune(c)
	}
	return r, nil
}

// unescape appends the text of a string's body; some text if no Scan has accepted
// the string. Half a surrogate pair becomes U+FFFD.
func unescape(dst, body []byte) []byte {
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' || i+1 == len(body) {
			dst = append(dst, c)
			i++
			continue
		}
		c = body[i+1]
		i += 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(body, i)
			if _, half := escapeLen(body, i-2); half == nil && r&0xF800 == 0xD800 {
				low, _ := hex4(body, i+6)
				r = 0x10000 + r&0x3FF<<10 + low&0x3FF
				i += 6
			}
			i += 4
			dst = utf8.AppendRune(dst, r) // U+FFFD for a half
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
