package partmap

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func join(t testing.TB, parts ...Key) Key {
	t.Helper()
	k, err := Join(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sampleKeys are keys of all types and numbers of levels, with their texts.
func sampleKeys(t testing.TB) map[string]Key {
	return map[string]Key{
		`""`:                       String(""),
		`"acme"`:                   String("acme"),
		`"2024"`:                   String("2024"),
		`"null"`:                   String("null"),
		`"/a,[b]"`:                 String("/a,[b]"),
		`"\"\\\u0000\u000a\u007f"`: String("\"\\\x00\n\x7f"),
		`"Привет, 世界 🙂"`:           String("Привет, 世界 🙂"),
		`"\u2028\udb40\udc01"`:     String("\u2028\U000E0001"),
		"\"\uFFFD\"":               String("\uFFFD"),
		`0`:                        Number(0),
		`2024`:                     Number(2024),
		`-1.5`:                     Number(-1.5),
		`9007199254740991`:         Number(1<<53 - 1),
		`100000000000000000000`:    Number(1e20),
		`1e+21`:                    Number(1e21),
		`0.000001`:                 Number(1e-6),
		`1e-07`:                    Number(1e-7),
		`5e-324`:                   Number(math.SmallestNonzeroFloat64),
		`1.7976931348623157e+308`:  Number(math.MaxFloat64),
		`true`:                     Bool(true),
		`false`:                    Bool(false),
		`null`:                     Null(),
		`undefined`:                Undefined(),
		`["acme",2024]`:            join(t, String("acme"), Number(2024)),
		`[undefined,null,false]`:   join(t, Undefined(), Null(), Bool(false)),
		`["","x"]`:                 join(t, String(""), String("x")),
		`["` + strings.Repeat("a", MaxString) + `",2]`: join(t, String(strings.Repeat("a", MaxString)), Number(2)),
	}
}

func TestKeyRoundTrips(t *testing.T) {
	seen := map[Key]string{}
	for text, k := range sampleKeys(t) {
		if !k.Valid() {
			t.Errorf("%s: not valid", text)
			continue
		}
		if got := k.String(); got != text {
			t.Errorf("String = %s, want %s", got, text)
		}
		if got, err := Parse(text); err != nil || got != k {
			t.Errorf("Parse(%s) = %v, %v", text, got, err)
		}
		if got, err := FromEncoded(k.Encoded()); err != nil || got != k {
			t.Errorf("FromEncoded of %s = %v, %v", text, got, err)
		}
		if got := FromTrusted(k.Encoded()); got != k || got.Clone() != k {
			t.Errorf("FromTrusted of %s = %v", text, got)
		}
		e := k.EPK()
		if e.Levels() != k.Len() || e != HashEncoded(k.Encoded()) {
			t.Errorf("%s: EPK %v of %d levels", text, e, k.Len())
		}
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s are one key", text, other)
		}
		seen[k] = text
	}
}

func TestZeroAndInvalidKeys(t *testing.T) {
	for name, k := range map[string]Key{
		"zero":      {},
		"NaN":       Number(math.NaN()),
		"+Inf":      Number(math.Inf(1)),
		"-Inf":      Number(math.Inf(-1)),
		"bad UTF-8": String("a\xffb"),
		"surrogate": String("\xed\xa0\x80"),
		"too long":  String(strings.Repeat("a", MaxString+1)),
		"no bytes":  FromTrusted(nil),
	} {
		if k != (Key{}) || k.Valid() || k.Len() != 0 || k.String() != "" || len(k.Encoded()) != 0 || k.EPK() != MinEPK() {
			t.Errorf("%s: %q is a key", name, k.Encoded())
		}
	}
	if _, err := (Key{}).MarshalText(); !errors.Is(err, ErrInvalid) {
		t.Errorf("MarshalText of no key: %v", err)
	}
	if Number(math.Copysign(0, -1)) != Number(0) {
		t.Error("-0 is not 0")
	}
	if Number(1<<63-1) != Number(1<<63-2) {
		t.Error("every number is a double")
	}
}

func TestKeyInJSON(t *testing.T) {
	got, err := json.Marshal(map[string]Key{"key": join(t, String("a"), Undefined())})
	if err != nil || string(got) != `{"key":"[\"a\",undefined]"}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestMisledKeyDoesNotPanic(t *testing.T) {
	for _, enc := range []string{"\x04", "\x05123", "\x08abc", "\x01\x08", "\x08\xfe\xff", "\x00\x00\x00\x00"} {
		k := FromTrusted([]byte(enc))
		_, _, _ = k.String(), k.Len(), k.EPK()
	}
}

func TestRefusedEncodings(t *testing.T) {
	long := func(n int) string { return "\x08" + strings.Repeat("a", n) + "\xff" }
	for _, tt := range []struct {
		enc    string
		kind   error
		offset int
	}{
		{"", ErrLevels, 0},
		{"\x04", ErrInvalid, 0},
		{"\x01\xff", ErrInvalid, 1},
		{"\x05\x00\x00\x00\x00\x00\x00\x00", ErrInvalid, 0},
		{"\x05\x00\x00\x00\x00\x00\x00\xf0\x7f", ErrInvalid, 0},     // infinity
		{"\x01\x05\x01\x00\x00\x00\x00\x00\xf8\x7f", ErrInvalid, 1}, // NaN
		{"\x05\x00\x00\x00\x00\x00\x00\x00\x80", ErrInvalid, 0},     // -0
		{"\x08abc", ErrInvalid, 0},
		{"\x08ab\xc3\xff", ErrInvalid, 3},
		{"\x01\x01\x01\x01", ErrLevels, 3},
		{long(MaxString + 1), ErrTooLong, 0},
		{"\x00" + long(MaxString+1), ErrTooLong, 1},
		{long(MaxString) + long(MaxString), ErrTooLong, MaxEncoded},
	} {
		var e *Error
		if k, err := FromEncoded([]byte(tt.enc)); !errors.As(err, &e) || !errors.Is(err, tt.kind) || e.Offset != tt.offset || k.Valid() {
			t.Errorf("FromEncoded(%.20q) = %v, %v; want %v at %d", tt.enc, k, err, tt.kind, tt.offset)
		}
	}
}

func TestRefusedJoins(t *testing.T) {
	big := String(strings.Repeat("a", MaxString))
	for _, tt := range []struct {
		parts []Key
		kind  error
	}{
		{nil, ErrLevels},
		{[]Key{Null(), {}}, ErrInvalid},
		{[]Key{Null(), Null(), Null(), Null()}, ErrLevels},
		{[]Key{join(t, Null(), Null()), join(t, Null(), Null())}, ErrLevels},
		{[]Key{big, big}, ErrTooLong},
	} {
		if k, err := Join(tt.parts...); !errors.Is(err, tt.kind) || k.Valid() {
			t.Errorf("Join(%v) = %v, %v, want %v", tt.parts, k, err, tt.kind)
		}
	}
}

func TestKeyAllocatesNothing(t *testing.T) {
	k := join(t, String("tenant"), Number(7))
	enc := append([]byte(nil), k.Encoded()...)
	if n := testing.AllocsPerRun(100, func() {
		k := FromTrusted(enc)
		e := k.EPK()
		if k.Len() != e.Levels() || len(k.Encoded()) != len(enc) {
			t.Error("levels")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkKeyString(b *testing.B) {
	k := join(b, String("tenant-0123456789"), Number(2024))
	b.ReportAllocs()
	for b.Loop() {
		_ = k.String()
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(`["tenant-0123456789",2024]`); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLen(b *testing.B) {
	k := String("tenant-0123456789")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += k.Len()
	}
}

// TestKeyRange: the range of a key has the key and all keys that begin with its levels, and no others.
func TestKeyRange(t *testing.T) {
	samples := sampleKeys(t)
	for _, k := range samples {
		r, err := k.Range()
		if err != nil {
			t.Fatalf("%s: %v", k, err)
		}
		for _, o := range samples {
			several := []Key{o}
			if o.Len() == 1 {
				several = append(several, join(t, o, Number(7)), join(t, o, String("a"), Null()))
			}
			for _, more := range several {
				epk := more.EPK()
				if want := strings.HasPrefix(string(more.Encoded()), string(k.Encoded())); r.Contains(&epk) != want {
					t.Errorf("the range of %s has %s: %v", k, more, !want)
				}
			}
		}
	}
}
