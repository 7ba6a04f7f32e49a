package jsondoc

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// rebuild makes of tokens what encoding/json makes of the document.
func rebuild(t *Tokens, token Token) any {
	switch token {
	case ObjectOpen:
		m := map[string]any{}
		for {
			name := t.Next()
			if name != Text {
				return m
			}
			key := string(t.Unescape(nil))
			m[key] = rebuild(t, t.Next())
		}
	case ArrayOpen:
		list := []any{}
		for {
			token := t.Next()
			if token == ArrayClose || token == End {
				return list
			}
			list = append(list, rebuild(t, token))
		}
	case Text:
		if !t.Escaped() {
			return string(t.Body())
		}
		return string(t.Unescape(nil))
	case Number:
		return t.Float()
	case True, False:
		return token == True
	}
	return nil
}

func TestTokens(t *testing.T) {
	for _, doc := range []string{
		`{}`, ` { "a" : [ ] , "b" : [ 1 , -2.5e3 , true , false , null , "x" , { } ] } `,
		`{"a\n\u00e9\ud83d\ude00":"\\\"\/","long name with é and 字":"` + strings.Repeat("é", 40) + `","a":{"b":{"c":[[1],[2,[3]]]}}}`,
		`{"id":"` + strings.Repeat("x", 100) + `\"","n":0.1,"m":12345678901234567890,"big":1e300,"e":-0}`,
	} {
		var want any
		if err := json.Unmarshal([]byte(doc), &want); err != nil {
			t.Fatal(err)
		}
		var tokens Tokens
		tokens.Reset([]byte(doc))
		got := rebuild(&tokens, tokens.Next())
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: tokens give %v", doc, got)
		}
		if end := tokens.Next(); end != End {
			t.Errorf("%s: token %d behind the document", doc, end)
		}
		for cut := range doc { // anything ends, and nothing is out of range
			tokens.Reset([]byte(doc[:cut]))
			for n := 0; tokens.Next() != End; n++ {
				if n > cut {
					t.Fatalf("%q: more tokens than bytes", doc[:cut])
				}
				tokens.Unescape(nil)
			}
		}
	}
}

func TestFloat(t *testing.T) {
	check := func(text string) {
		want, _ := strconv.ParseFloat(text, 64)
		if got := Float([]byte(text)); got != want || math.Signbit(got) != math.Signbit(want) {
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
