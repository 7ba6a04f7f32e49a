package chromium

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	var said tail
	for _, text := range []string{"begin", strings.Repeat("x", tailBytes-3), "end"} {
		if n, err := said.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if got, want := said.text(), strings.Repeat("x", tailBytes-3)+"end"; got != want {
		t.Errorf("%d bytes, %q at the end", len(got), got[len(got)-8:])
	}
}
