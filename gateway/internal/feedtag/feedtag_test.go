package feedtag

import (
	"strings"
	"testing"
)

func TestTag(t *testing.T) {
	for _, text := range []string{`"-FF@now"`, `"05C1-3FFF@AYx2:7@8"`} {
		tag, err := Parse(text)
		if err != nil || tag.String() != text {
			t.Errorf("%s: %v, %v", text, tag, err)
		}
		if weak, err := Parse("W/" + text); err != nil || weak != tag {
			t.Errorf("weak %s: %v, %v", text, weak, err)
		}
	}
	for _, text := range []string{"", `"`, `"-FF"`, `"-FF@"`, `"FF@now"`, `"-GG@now"`, `"0-FF@now"`} {
		if tag, err := Parse(text); err == nil {
			t.Errorf("%s: %v", text, tag)
		}
	}
	if _, err := Parse(`"-FF@` + strings.Repeat("x", maxText) + `"`); err == nil {
		t.Error("a long text was read")
	}
}
