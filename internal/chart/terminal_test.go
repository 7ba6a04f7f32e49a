package chart

import (
	"bytes"
	"strings"
	"testing"
)

func TestBar(t *testing.T) {
	f := func(part, whole int, want string) {
		t.Helper()
		if got := Bar(part, whole, 4); got != want {
			t.Errorf("Bar(%d, %d) = %q, want %q", part, whole, got, want)
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

func TestPrintLog(t *testing.T) {
	var b bytes.Buffer
	PrintLog(&b, []Row{{"1/s", 10, "a"}, {"100/s", 100, ""}, {"1,000/s", 0, "none"}, {"2,000/s", 5000, "c"}}, 100)
	for _, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if runes := []rune(line); string(runes[:2]) != "  " || strings.Count(line, "|") != 1 || strings.HasSuffix(line, " ") {
			t.Errorf("%q", line)
		}
	}
	bars := func(line int) int { return strings.Count(strings.Split(b.String(), "\n")[line], "▓") }
	if !(0 < bars(0) && bars(0) < bars(1) && bars(1) < bars(3) && bars(2) == 0) {
		t.Errorf("\n%s", &b)
	}
	PrintLog(&b, []Row{{"1/s", 7, ""}}, 7)
	PrintLog(&b, nil, 7)
}
