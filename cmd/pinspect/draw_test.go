package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cleavestore/cleave/partmap"
)

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
