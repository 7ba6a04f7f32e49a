package partmap

import (
	"errors"
	"strings"
	"testing"
)

// What Parse reads beside the text that String gives.
func TestParseAccepts(t *testing.T) {
	for text, want := range map[string]Key{
		" \t\r\n\"a\" ":              String("a"),
		`["a"]`:                      String("a"),
		`{}`:                         Undefined(),
		`{ }`:                        Undefined(),
		"[ \"a\" , {} , 1 ] ":        join(t, String("a"), Undefined(), Number(1)),
		`"\"\\\/\b\f\n\r\t"`:         String("\"\\/\b\f\n\r\t"),
		`"\u0041\u00E9\ud83D\ude42"`: String("Aé🙂"),
		`-0`:                         Number(0),
		`0e5`:                        Number(0),
		`1.50E+2`:                    Number(150),
		`1e-400`:                     Number(0),
		`9223372036854775807`:        Number(1 << 63),
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%s) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	a := strings.Repeat("a", MaxString)
	for _, tt := range []struct {
		text   string
		kind   error
		offset int
	}{
		{``, ErrInvalid, 0},
		{` `, ErrInvalid, 1},
		{`acme`, ErrInvalid, 0},
		{`nul`, ErrInvalid, 0},
		{`nullx`, ErrInvalid, 0},
		{`NaN`, ErrInvalid, 0},
		{`-Infinity`, ErrInvalid, 1},
		{`null x`, ErrInvalid, 5},
		{`"a`, ErrInvalid, 0},
		{`"a"b`, ErrInvalid, 3},
		{"\"a\nb\"", ErrInvalid, 2},
		{"\"a\xff\"", ErrInvalid, 2},
		{`"a\x"`, ErrInvalid, 2},
		{`"\`, ErrInvalid, 1},
		{`"\u12"`, ErrInvalid, 1},
		{`"\u+123"`, ErrInvalid, 1},
		{`"\ud83d"`, ErrInvalid, 1},
		{`"\ud83d\u0041"`, ErrInvalid, 1},
		{`"\ude42\ud83d"`, ErrInvalid, 1},
		{`01`, ErrInvalid, 1},
		{`+1`, ErrInvalid, 0},
		{`.5`, ErrInvalid, 0},
		{`1.`, ErrInvalid, 2},
		{`1e`, ErrInvalid, 2},
		{`1e400`, ErrInvalid, 0},
		{`0x10`, ErrInvalid, 1},
		{`1_000`, ErrInvalid, 1},
		{`{"a":1}`, ErrInvalid, 1},
		{`[`, ErrInvalid, 1},
		{`[]`, ErrLevels, 1},
		{`[1,]`, ErrInvalid, 3},
		{`[1 2]`, ErrInvalid, 3},
		{`[1`, ErrInvalid, 2},
		{`[1]]`, ErrInvalid, 3},
		{`[[1]]`, ErrInvalid, 1},
		{`[1,2,3,4]`, ErrLevels, 7},
		{`[1,"` + a + `a"]`, ErrTooLong, 3},
		{`["` + a + `","` + a + `"]`, ErrTooLong, 4 + MaxString},
	} {
		var e *Error
		if k, err := Parse(tt.text); !errors.As(err, &e) || !errors.Is(err, tt.kind) || e.Offset != tt.offset || k.Valid() {
			t.Errorf("Parse(%.30s) = %.30v, %v; want %v at %d", tt.text, k, err, tt.kind, tt.offset)
		}
	}
}
