package engine

import (
	"errors"
	"math"
	"testing"
)

func TestETagText(t *testing.T) {
	for _, e := range []ETag{0, 1, 255, math.MaxUint64} {
		if got, err := ParseETag(e.String()); err != nil || got != e {
			t.Errorf("ParseETag(%q) = %v, %v", e.String(), got, err)
		}
	}
	for _, text := range []string{`"`, `""`, `"0"`, `1`, `"1`, `"g"`, `"10000000000000000"`, `"-1"`} {
		if e, err := ParseETag(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseETag(%q) = %v, %v", text, e, err)
		}
	}
}

func TestKeyText(t *testing.T) {
	for text, want := range map[string]PartitionKey{
		`"a"`: StringKey("a"), `3`: NumberKey(3), `true`: BoolKey(true), `null`: NullKey(), `{}`: UndefinedKey(),
		`["a",3,undefined]`: JoinKeys(StringKey("a"), NumberKey(3), UndefinedKey()),
	} {
		if got, err := ParseKey(text); err != nil || got != want {
			t.Errorf("ParseKey(%s) = %v, %v", text, got, err)
		}
		if got, err := ParseKey(want.String()); err != nil || got != want {
			t.Errorf("ParseKey(%s) = %v, %v", want, got, err)
		}
	}
	for _, text := range []string{``, `a`, `[]`, `["a"`, `[1,2,3,4]`, `[[1]]`, `{"a":1}`} {
		if key, err := ParseKey(text); !errors.Is(err, ErrInvalid) || key.Valid() {
			t.Errorf("ParseKey(%s) = %v, %v", text, key, err)
		}
	}
	if JoinKeys(NullKey(), NullKey(), NullKey(), NullKey()).Valid() || JoinKeys(PartitionKey{}).Valid() {
		t.Error("a key of four levels, or of an invalid one, is valid")
	}
}
