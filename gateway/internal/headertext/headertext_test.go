package headertext

import "testing"

func TestOf(t *testing.T) {
	for in, want := range map[string]string{"": "", "a b~": "a b~", "é": "?", "a\r\nb: c": "a??b: c", "\x7f\x00": "??", "x\xff": "x?"} {
		if got := Of(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
