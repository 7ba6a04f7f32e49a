package words

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		`get cities "PT" porto`:       {"get", "cities", `"PT"`, "porto"},
		`get c '"P T"' 'a b'`:         {"get", "c", `"P T"`, "a b"},
		`get c "P T"  x`:              {"get", "c", `"P T"`, "x"},
		`put c '{"id":"a","k":"it"}'`: {"put", "c", `{"id":"a","k":"it"}`},
		`a ''`:                        {"a", ""},
		`put c {"t":"a\"'b' c\"d"}`:   {"put", "c", `{"t":"a\"'b' c\"d"}`},
		`get c "C:\\" x`:              {"get", "c", `"C:\\"`, "x"},
		"put c {\"t\":\"\xff\"}":      {"put", "c", "{\"t\":\"\xff\"}"},
		``:                            nil,
	} {
		if got, err := Split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
}

func TestComplete(t *testing.T) {
	names := []string{"segments", "space", "cities", "citizens", "k\u00f6ln", "k\u00fcste"} // the last two part in the second byte of a character
	for _, test := range []struct{ line, want string }{
		{"sp", "space"}, {"s", ""}, {"top ci", "top citi"}, {"top citie", "top cities"}, {"x", ""}, {"space", ""}, {"k", ""},
	} {
		if got, pos, _ := Complete(test.line, len(test.line), names); got != test.want || got != "" && pos != len(got) {
			t.Errorf("%q: %q at %d, want %q", test.line, got, pos, test.want)
		}
	}
}
