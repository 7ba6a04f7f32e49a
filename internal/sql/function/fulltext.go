package function

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// Full text functions find words in a text, without an index. A word is a run of letters,
// digits and marks, in any case. What is looked for is a word, or several that follow
// each other. Nothing that has no word is ever found. Words are not reduced to their
// stems, and none is passed over for being frequent.

// apart stands before and after each word of a text that was taken apart. It is in no
// word.
const apart = 0

// words returns the words of a text, in small letters, each between two apart. So
// words that follow each other are a substring.
func words(e *Env, s string) (string, bool) {
	// A word of one byte takes two, and small letters can take more bytes than capitals.
	if !e.Grow(2*len(s)+1) || !e.Step(len(s)/16) {
		return "", false
	}
	b := append(make([]byte, 0, len(s)+2), apart)
	for _, r := range s {
		switch {
		case r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)):
			b = utf8.AppendRune(b, unicode.ToLower(r))
		case b[len(b)-1] != apart:
			b = append(b, apart)
		}
	}
	if b[len(b)-1] != apart {
		b = append(b, apart)
	}
	return string(b), true
}

var errFuzzy = fault.Of(fault.ErrInvalid, errors.New("full text functions take words as strings: terms with a distance are not available"))

// addFullText makes the function known that is true if all, or any, of its arguments but the
// first are found in the first.
func addFullText(name string, most int, all bool) {
	add(name, 2, most, func(e *Env, args []value.Value) value.Value {
		for _, v := range args[1:] {
			if v.IsObject() {
				e.Fail(errFuzzy) // Cosmos DB has a meaning for it
				return value.Value{}
			}
		}
		list, ok := texts(args)
		if !ok {
			return value.Value{}
		}
		text, ok := words(e, list[0])
		if !ok {
			return value.Value{}
		}
		for _, s := range list[1:] {
			part, ok := words(e, s)
			if !ok || !e.Step(len(text)/64) {
				return value.Value{}
			}
			if found := len(part) > 1 && strings.Contains(text, part); found != all {
				return value.Bool(found)
			}
		}
		return value.Bool(all)
	})
}
