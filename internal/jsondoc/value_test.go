package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// A key made of members is the key that a scan finds.
func TestAppendKey(t *testing.T) {
	var s Scanner
	var out Doc
	var scratch []byte
	for _, value := range []string{`null`, `true`, `false`, `0`, `-0`, `1e3`, `1.25`, `""`, `"é"`, `"a\u00e9\n\"\ud83d\ude00"`} {
		doc := []byte(`{"id":"1","k":` + value + `}`)
		if err := s.Scan(doc, mustCompile(t, "/k"), Limits{}, &out); err != nil {
			t.Fatal(err)
		}
		Members(doc, func(name []byte, v Value) {
			if string(name) != "k" {
				return
			}
			if key, ok := v.AppendKey([]byte("x"), &scratch); !ok || !bytes.Equal(key[1:], out.PK) {
				t.Errorf("%s: %x, want %x", value, key, out.PK)
			}
		})
	}
	for _, text := range []string{`{}`, `[1]`, `1e999`, `-1e999`} {
		w := Walk([]byte(text))
		v := w.Whole()
		if key, ok := v.AppendKey(nil, &scratch); ok || len(key) > 0 {
			t.Errorf("%s: %x", text, key)
		}
	}
	long := Value{Kind: KindString, Text: []byte(`"` + strings.Repeat("x", 5000) + `"`)}
	if key, ok := long.AppendKey(nil, &scratch); !ok || len(key) != len(long.Text) {
		t.Errorf("long: %d bytes, %v", len(key), ok)
	}
}

func TestDouble(t *testing.T) {
	check := func(text string) {
		want, _ := strconv.ParseFloat(text, 64)
		if got := double([]byte(text)); got != want || math.Signbit(got) != math.Signbit(want) {
			t.Errorf("%s: %v, not %v", text, got, want)
		}
	}
	for _, text := range []string{"0", "-0", "1", "-1", "0.1", "123.456", "9007199254740993", "9007199254740992", "1e5", "1E400", "-1e400",
		"0.0000000000000000000000000000001", "12345678901234567890", "5629499534213119", "5629499534213120", "0.30000000000000004"} {
		check(text)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		check(strconv.FormatFloat(rng.NormFloat64()*math.Pow(10, float64(rng.IntN(20)-8)), 'f', rng.IntN(17), 64))
		check(fmt.Sprint(rng.Int64()))
	}
}

// TestHalfPairs: JSON that no Scan has accepted may escape half a surrogate pair. It is U+FFFD, and takes nothing of what follows.
func TestHalfPairs(t *testing.T) {
	for _, text := range []string{`"\ud83d\ude00"`, `"x\ude00y"`, `"\ud800"`, `"\ud800\u0041b"`, `"\ud800\ud83d\ude00z"`, `"\udc00\udc00"`, `"\ud800\nabcdefgh"`, `"\ud800abcdefgh"`} {
		var want string
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		w := Walk([]byte(text))
		if v := w.Next(); string(v.AppendText(nil)) != want {
			t.Errorf("%s: %q, want %q", text, v.AppendText(nil), want)
		}
	}
}
