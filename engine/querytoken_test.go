package engine

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
	at := position{order: []byte("order"), pk: partmap.String("key"), id: "id"}
	text := at.text(query)
	if p, err := parsePosition(text, query); err != nil || p.id != at.id {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err := parsePosition(text, query+1); !errors.Is(err, errBadContinuation) {
		t.Errorf("of another query: %+v, %v", p, err)
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 1
		if p, err := parsePosition(base64.RawURLEncoding.EncodeToString(b), query); !errors.Is(err, errBadContinuation) {
			t.Errorf("byte %d: %+v, %v", i, p, err)
		}
		b[i] ^= 1
	}
}
