package fuzz

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cleavestore/cleave/partmap"
)

// FuzzKeyText: the text of a key is refused with an offset in it, or read as a
// key whose own text and encoding give it again.
func FuzzKeyText(f *testing.F) {
	for _, seed := range []string{
		`"acme"`, `2024`, `-0.5e-7`, `true`, `null`, `undefined`, `{}`, `["acme",2024,undefined]`, ` [ "a" , {} ] `,
		`"\u0041\ud83d\ude42\n"`, `"\ud83d"`, "\"\xff\"", `[1,2,3,4]`, `[]`, `1e400`, `acme`, `"a`, `"` + strings.Repeat("a", 2049) + `"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := partmap.Parse(text)
		if err != nil {
			checkRefusal(t, err, len(text))
			return
		}
		checkKey(t, key)
	})
}

// FuzzEncodedKey: bytes are refused with an offset in them, or are the one
// encoding of a key.
func FuzzEncodedKey(f *testing.F) {
	for _, seed := range []string{
		"", "\x00", "\x01\x02\x03", "\x04", "\x05\x00\x00\x00\x00\x00\x00\x00\x80", "\x05\x00\x00\x00\x00\x00\x00\xf8\x7f",
		"\x05\x00\x00\x00\x00\x00\xa0\x9f\x40", "\x08acme\xff", "\x08acme", "\x08\xc3\xff", "\x08a\xff\x08b\xff\x01", "\x01\x01\x01\x01",
		"A", "\x48acme\xff", "\x45\x00\x00\x00\x00\x00\xa0\x9f\x40", "A\x01", "\x01A",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, enc []byte) {
		epk, v1 := partmap.HashEncoded(enc), partmap.HashV1(enc)
		trusted := partmap.FromTrusted(enc)
		if text := trusted.String(); !utf8.ValidString(text) {
			t.Errorf("text %q", text)
		}
		key, err := partmap.FromEncoded(enc)
		if err != nil {
			checkRefusal(t, err, len(enc))
			return
		}
		if !bytes.Equal(key.Encoded(), enc) || trusted != key || key.EPK() != epk || epk.Levels() != key.Len() || v1 == nil {
			t.Errorf("%x: key %v, EPK %v, version 1 %X", enc, key, epk, v1)
		}
		checkKey(t, key)
	})
}

// FuzzEPK: hex text is refused with an offset in it, or read as an EPK that
// prints and orders alike.
func FuzzEPK(f *testing.F) {
	for _, seed := range [][2]string{
		{"", "FF"}, {"00", ""}, {"0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "05c1dffffffffc"}, {"FF00", "0"}, {"xx", "10"},
		{"22E342F38A486A088463DFF7838A5963", "22E342F38A486A088463DFF7838A5963FF"}, {strings.Repeat("3F", 48), strings.Repeat("00", 49)},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := partmap.ParseEPK(a)
		if err != nil {
			checkRefusal(t, err, len(a))
			return
		}
		if x.String() != strings.ToUpper(a) {
			t.Errorf("%q printed as %v", a, x)
		}
		if back, err := partmap.EPKFromBytes(x.Bytes()); err != nil || back != x {
			t.Errorf("%v from bytes: %v, %v", x, back, err)
		}
		y, err := partmap.ParseEPK(b)
		if err != nil {
			checkRefusal(t, err, len(b))
			return
		}
		padded := func(s string) string { return strings.ToUpper(s) + strings.Repeat("0", 96-len(s)) }
		if got, want := x.Compare(&y), strings.Compare(padded(a), padded(b)); got != want || y.Compare(&x) != -want {
			t.Errorf("Compare(%v, %v) = %d, want %d", x, y, got, want)
		}
		r := partmap.Range{Min: x, Max: y}
		if mid := partmap.Midpoint(r); mid != x && (!r.Contains(&mid) || mid.Compare(&x) == 0) {
			t.Errorf("middle of %v is %v", r, mid)
		}
	})
}

func checkKey(t *testing.T, key partmap.Key) {
	t.Helper()
	if !key.Valid() || key.Len() < 1 || key.Len() > partmap.MaxLevels || len(key.Encoded()) > partmap.MaxEncoded {
		t.Errorf("%v: %d levels, %d bytes", key, key.Len(), len(key.Encoded()))
	}
	if back, err := partmap.Parse(key.String()); err != nil || back.Version() != 2 || back.OfVersion(key.Version()) != key {
		t.Errorf("%v read again: %v, %v", key, back, err)
	}
	if back, err := partmap.FromEncoded(key.Encoded()); err != nil || back != key {
		t.Errorf("%v decoded again: %v, %v", key, back, err)
	}
}

func checkRefusal(t *testing.T, err error, length int) {
	t.Helper()
	var e *partmap.Error
	if !errors.As(err, &e) || e.Offset < 0 || e.Offset > length || e.Detail == "" {
		t.Errorf("%v: not an error with an offset up to %d", err, length)
	}
}
