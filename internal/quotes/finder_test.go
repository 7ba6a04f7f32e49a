package quotes

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/randtest"
)

var escape = regexp.MustCompile(`^\\(?:["\\/bfnrt]|u([0-9a-fA-F]{4}))`)

// reference finds quotes byte by byte. ok is false if the text has a flaw that a
// Finder must see.
func reference(text []byte) (offsets []uint32, escapes, ok bool) {
	if !utf8.Valid(text) {
		return nil, false, false
	}
	inString, after := false, 0
	for i, c := range text {
		switch {
		case i < after: // it belongs to an escape
		case c == '"':
			offsets = append(offsets, uint32(i))
			inString = !inString
		case c == '\\':
			escapes = true
			after = i + 2
			match := escape.FindSubmatch(text[i:])
			if match == nil {
				return nil, false, false
			}
			unit, _ := strconv.ParseUint("0"+string(match[1]), 16, 16)
			if r := rune(unit); utf16.IsSurrogate(r) {
				low := escape.FindSubmatch(text[i+6:])
				if low == nil || low[1] == nil {
					return nil, false, false
				}
				if unit, _ = strconv.ParseUint(string(low[1]), 16, 16); utf16.DecodeRune(r, rune(unit)) == utf8.RuneError {
					return nil, false, false
				}
				after = i + 12
			}
		case inString && c < ' ':
			return nil, false, false
		}
	}
	return offsets, escapes, true
}

// find all pairs of a text by the Finder, and what it says of the last quote if it
// has no pair.
func findAll(f *Finder, text []byte) (offsets []uint32, escapes, ok bool) {
	defer f.Release()
	for ok = f.Start(text); ok; ok = f.Next() {
		n := slices.Index(f.Pairs[:], None)
		if n == 0 {
			if f.pending {
				offsets = append(offsets, f.open)
			}
			return offsets, f.Escapes, true
		}
		offsets = append(offsets, f.Pairs[:n]...)
	}
	return nil, false, false
}

// compare compares a Finder with the reference, and returns whether the text has a
// flaw.
func compare(t *testing.T, f *Finder, text []byte) bool {
	t.Helper()
	want, wantEscapes, wantOK := reference(text)
	got, escapes, ok := findAll(f, text)
	if ok != wantOK || !slices.Equal(got, want) || escapes != wantEscapes {
		t.Fatalf("%q:\ngot  %v %v %v\nwant %v %v %v", text, got, escapes, ok, want, wantEscapes, wantOK)
	}
	return ok
}

var pieces = []string{
	`"`, `"`, `"`, `""`, `","`, `":"`, "a", "some text", strings.Repeat("plain ASCII of some length ", 6), "{", "}", "[1,2]",
	`\"`, `\\`, `\\\"`, `\n`, `\u0041`, `\u20aC`, `\ud83d\ude00`, strings.Repeat(`\\`, 40), strings.Repeat(`\`, 130),
	"é", "ß", "世界", "😀", "\u007f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff",
}

var flaws = []string{
	"\x00", "\x1f", "\n", "\t", `\`, `\x`, `\u12`, `\u123g`, `\ud800`, `\udc00`, `\ud800\u0041`, `\ud83d\ud83d`, `\ud83d\n`,
	"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc3\"", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe1\x80", "\xed\xa0\x80", "\xed\xbf\xbf",
	"\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf1\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "\xfe",
}

// randomText makes a text of n bytes or some more, whose last byte is ASCII.
func randomText(r *rand.Rand, n, flawed int) (text []byte) {
	few := pieces
	if r.IntN(2) == 0 { // long stretches without this or that
		few = pieces[r.IntN(len(pieces)-1):]
		few = few[:1+r.IntN(len(few))]
	}
	for len(text) < n {
		if r.IntN(n) < flawed {
			text = append(text, flaws[r.IntN(len(flaws))]...)
		} else {
			text = append(text, few[r.IntN(len(few))]...)
		}
	}
	return append(text, '}')
}

func TestFinder(t *testing.T) {
	if !Available {
		t.Log("the processor has not the instructions")
		return
	}
	r := randtest.New(t)
	rounds := 30000
	if testing.Short() {
		rounds = randtest.Lone(6000)
	}
	var f Finder
	var sound, flawed int
	for range rounds {
		n := MinLen + r.IntN(400)
		if r.IntN(8) == 0 {
			n = MinLen + r.IntN(3*window)
		}
		if compare(t, &f, randomText(r, n, r.IntN(3)*r.IntN(8))) {
			sound++
		} else {
			flawed++
		}
	}
	if sound < rounds/5 || flawed < rounds/5 {
		t.Errorf("%d texts without a flaw, %d with one", sound, flawed)
	}
}

// TestFinderPlaces puts each piece and each flaw at each place of two blocks, around
// the end of a window, and at the end of the text.
func TestFinderPlaces(t *testing.T) {
	if !Available {
		t.Log("the processor has not the instructions")
		return
	}
	var f Finder
	behind := [...]int{1, 70, 140}
	for _, around := range []string{"a", "é", `"`, "\\\\"} {
		for _, piece := range slices.Concat(pieces, flaws) {
			for at := range 130 {
				for _, before := range []int{0, window - 66} {
					if before > 0 && around != "a" {
						continue
					}
					var text bytes.Buffer
					text.WriteString(`"`)
					for text.Len() < before+at {
						text.WriteString(around)
					}
					text.WriteString(piece)
					text.WriteString(strings.Repeat("x", max(0, MinLen-text.Len())))
					text.WriteString(strings.Repeat("y", behind[at%3]))
					compare(t, &f, text.Bytes())
				}
			}
		}
	}
}

// TestFinderRunes looks at all sequences of two bytes, and at three and four bytes
// of every class.
func TestFinderRunes(t *testing.T) {
	if !Available {
		t.Log("the processor has not the instructions")
		return
	}
	var f Finder
	text := bytes.Repeat([]byte{'x'}, 160)
	look := func(at int, sequence ...byte) {
		saved := bytes.Clone(text)
		copy(text[at:], sequence)
		if _, _, ok := findAll(&f, text); ok != utf8.Valid(text) {
			t.Fatalf("%x at %d: %v", sequence, at, ok)
		}
		copy(text, saved)
	}
	for a := 0x80; a < 0x100; a++ {
		for b := range 0x100 {
			if b != '"' && b != '\\' {
				look(62+b%4, byte(a), byte(b))
			}
		}
	}
	classes := []byte{'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff}
	for at, a := range classes {
		for _, b := range classes {
			for _, c := range classes {
				look(60+at%5, a, b, c)
				for _, d := range classes {
					look(30+at%3, a, b, c, d)
				}
			}
		}
	}
}

// FuzzFinder compares a Finder with the reference, in any bytes.
func FuzzFinder(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 0))
	for range 20 {
		f.Add(randomText(r, MinLen+r.IntN(300), r.IntN(3)))
	}
	var finder Finder
	f.Fuzz(func(t *testing.T, text []byte) {
		if Available {
			compare(t, &finder, slices.Concat(text, bytes.Repeat([]byte{' '}, max(1, MinLen-len(text)))))
		}
	})
}
