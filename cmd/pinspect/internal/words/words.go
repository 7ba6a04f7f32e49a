// Package words divides the lines of a shell into words, and completes them. Its functions are
// pure.
package words

import (
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/cli"
)

// Split divides a line into words as a shell does: at spaces that are not within quotes. Double
// quotes are part of a word, and within them a backslash takes what follows for no quote, as in JSON.
func Split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun, escaped := false, false
	quote := byte(0)
	for i := range len(line) { // bytes that are no UTF-8 stay
		b := line[i]
		switch {
		case quote == 0 && (b == ' ' || b == '\t'):
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		case quote == 0 && b == '\'':
			quote, begun = b, true
		case quote == '\'' && b == '\'':
			quote = 0
		default:
			if b == '"' && quote != '\'' && !escaped {
				quote = map[byte]byte{0: '"', '"': 0}[quote]
			}
			escaped = quote == '"' && b == '\\' && !escaped
			word.WriteByte(b)
			begun = true
		}
	}
	if quote != 0 {
		return nil, cli.Usagef("a quote %c is not closed", quote)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// Complete completes the word before pos if all names that begin with it go on the same
// way.
func Complete(line string, pos int, names []string) (string, int, bool) {
	start := strings.LastIndexByte(line[:pos], ' ') + 1
	prefix := line[start:pos]
	longest, found := "", false
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if !found {
			longest, found = name, true
			continue
		}
		for !strings.HasPrefix(name, longest) {
			longest = longest[:len(longest)-1]
		}
	}
	for !utf8.ValidString(longest) { // the names part within a character
		longest = longest[:len(longest)-1]
	}
	if !found || len(longest) <= len(prefix) {
		return "", 0, false
	}
	return line[:start] + longest + line[pos:], start + len(longest), true
}
