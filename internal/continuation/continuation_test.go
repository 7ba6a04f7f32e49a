package continuation

import (
	"encoding/base64"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/partmap"
)

// TestContinuationDamaged changes each byte of a continuation, and takes one to
// another query: it is refused, and never goes on at another place.
func TestContinuationDamaged(t *testing.T) {
	const query = 0x1234567890abcdef
	for _, row := range []uint64{0, 1, 1 << 40} {
		at := Position{Order: []byte("order"), Key: partmap.String("key"), ID: "id", Row: row}
		damage(t, &at, query)
	}
}

func damage(t *testing.T, at *Position, query uint64) {
	text := at.Text(query, false)
	if p, err := Parse(text, query); err != nil || p.ID != at.ID || p.Row != at.Row {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err := Parse(text, query+1); !errors.Is(err, ErrBad) {
		t.Errorf("of another query: %+v, %v", p, err)
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 1
		if p, err := Parse(base64.RawURLEncoding.EncodeToString(b), query); !errors.Is(err, ErrBad) {
			t.Errorf("byte %d: %+v, %v", i, p, err)
		}
		b[i] ^= 1
	}
}
