package fuzz

import (
	"errors"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// FuzzPosition: a text is refused, or is the position whose text gives it again.
func FuzzPosition(f *testing.F) {
	for _, seed := range []string{
		"", "start", "now", "time:2024-02-29T12:00:00.5Z", "time:9999", "AQEAAQAB_yoAAAAA", "AQEAAQABP_8BAAAAAA==",
		engine.FromTime(time.UnixMilli(1)).String(),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := engine.ParsePosition(text)
		if err != nil {
			if !errors.Is(err, engine.ErrInvalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := engine.ParsePosition(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q becomes %v, then %v: %v", text, p, again, err)
		}
	})
}
