// Package headertext makes names fit for the headers of an answer.
package headertext

import "strings"

// Of returns s with a question mark in the place of each character that a header must not have: those
// beyond ASCII and the control characters. A string without any is returned as it is.
func Of(s string) string {
	for i := range len(s) {
		if s[i] >= 0x7F || s[i] < 0x20 {
			return strings.Map(func(r rune) rune {
				if r >= 0x7F || r < 0x20 {
					return '?'
				}
				return r
			}, s)
		}
	}
	return s
}

// Lower is strings.ToLower for ASCII.
func Lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
