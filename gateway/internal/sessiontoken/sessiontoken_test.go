package sessiontoken

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	for token, want := range map[string][]Entry{
		"":                                 nil,
		"0:-1#5":                           {{"0", 5}},
		"0:-1#5,1:-1#18446744073709551615": {{"0", 5}, {"1", 18446744073709551615}},
		"1:2#12#1=11#2=-1":                 {{"1", 12}},
		"3:7":                              {{"3", 7}},
		"05-C1E1:-1#0,05-C1E1:-1#1":        {{"05-C1E1", 0}, {"05-C1E1", 1}},
	} {
		got, err := Parse(token)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", token, got, err, want)
		}
		if again, err := Parse(Text(got)); err != nil || !slices.Equal(again, want) {
			t.Errorf("%q as %q: %v, %v", token, Text(got), again, err)
		}
	}
	for _, token := range []string{
		",", "x", "1", "1:", ":-1#5", "1:-1", "1:-1#", "1:-1#-5", "1:-1#18446744073709551616", "9:-1#9,x", "9:-1#9,", "1:v#5", "1:-1#5#", "1:-1#5#1", "1:-1#5#x=1", "1:-1#5#1=x",
	} {
		if got, err := Parse(token); err == nil {
			t.Errorf("%q: %v", token, got)
		}
	}
	if n := Newest([]Entry{{"0", 5}, {"1", 9}, {"2", 7}}); n != 9 || Newest(nil) != 0 {
		t.Errorf("the newest of 5, 9 and 7 is %d, that of none %d", n, Newest(nil))
	}
}
