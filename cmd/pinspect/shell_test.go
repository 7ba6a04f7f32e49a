package main

import (
	"slices"
	"strings"
	"testing"
)

// TestShell answers lines that are not typed.
func TestShell(t *testing.T) {
	s := newSample(t)
	status, stdout, stderr := runInput(t, `
use cities
SELECT VALUE COUNT(1) FROM c WHERE c.country = 'C1';
EXPLAIN SELECT c.id FROM c WHERE c.id = 'city-0601'
get cities "C6" city-0601
help
quit
top
`, "shell", s.dir)
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	for _, want := range []string{"city-0601", s.cities["city-0601"], "EXPLAIN"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	for input, want := range map[string]string{
		"use none\nSELECT * FROM c": "none",
		"frobnicate":                "unknown command",
		"get cities 'x":             "not closed",
	} {
		if status, _, stderr := runInput(t, input, "shell", s.dir); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q lacks %q", input, status, stderr, want)
		}
	}
}

func TestSplitLine(t *testing.T) {
	for line, want := range map[string][]string{
		`get cities "PT" porto`:       {"get", "cities", `"PT"`, "porto"},
		`get c '"P T"' 'a b'`:         {"get", "c", `"P T"`, "a b"},
		`get c "P T"  x`:              {"get", "c", `"P T"`, "x"},
		`put c '{"id":"a","k":"it"}'`: {"put", "c", `{"id":"a","k":"it"}`},
		`a ''`:                        {"a", ""},
		``:                            nil,
	} {
		if got, err := split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
}

func TestComplete(t *testing.T) {
	names := []string{"segments", "space", "cities", "citizens"}
	for _, test := range []struct{ line, want string }{
		{"sp", "space"}, {"s", ""}, {"top ci", "top citi"}, {"top citie", "top cities"}, {"x", ""}, {"space", ""},
	} {
		if got, pos, _ := complete(test.line, len(test.line), names); got != test.want || got != "" && pos != len(got) {
			t.Errorf("%q: %q at %d, want %q", test.line, got, pos, test.want)
		}
	}
}
