package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cleavestore/cleave/partmap"
)

func TestBar(t *testing.T) {
	f := func(part, whole int, want string) {
		t.Helper()
		if got := bar(part, whole, 4); got != want {
			t.Errorf("bar(%d, %d) = %q, want %q", part, whole, got, want)
		}
	}
	f(0, 10, "")
	f(10, 10, "████")
	f(99, 10, "████")
	f(5, 10, "██")
	f(1, 1000, "▏")
	f(1, 0, "")
	f(7, 16, "█▊")
}

// The strips of partitions that tile the key space cover each cell.
func TestStrip(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8, 32, 100} {
		covered := []rune(strings.Repeat(" ", stripCells))
		for _, r := range partmap.Ranges(n) {
			text := strip(r, stripCells)
			if utf8.RuneCountInString(text) != stripCells || !strings.Contains(text, "█") {
				t.Errorf("%d partitions: %q", n, text)
			}
			for i, c := range []rune(text) {
				if c == '█' {
					covered[i] = c
				}
			}
		}
		if strings.Contains(string(covered), " ") {
			t.Errorf("%d partitions leave cells empty: %q", n, string(covered))
		}
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{"cities": "cities", "größe": "größe", "a\u202eb": `"a\u202eb"`, "\x9bm": `"\x9bm"`} {
		if got := printable(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
