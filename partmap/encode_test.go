package partmap

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

type component struct {
	Type   string `json:"type"`
	Value  any    `json:"value"`
	Repeat string `json:"repeat"`
	Count  int    `json:"count"`
	Bits   string `json:"float64_bits"`
}

func (c component) append(dst []byte) ([]byte, error) {
	switch c.Type {
	case "undefined":
		return AppendUndefined(dst), nil
	case "null":
		return AppendNull(dst), nil
	case "bool":
		return AppendBool(dst, c.Value == true), nil
	case "number":
		bits, err := strconv.ParseUint(c.Bits, 16, 64)
		return AppendNumber(dst, math.Float64frombits(bits)), err
	case "string":
		if c.Repeat != "" {
			return AppendString(dst, []byte(strings.Repeat(c.Repeat, c.Count))), nil
		}
		s, ok := c.Value.(string)
		if !ok {
			return nil, fmt.Errorf("string component %v", c.Value)
		}
		return AppendString(dst, []byte(s)), nil
	}
	return nil, fmt.Errorf("component type %q", c.Type)
}

// The published EPKs of version 2: kind Hash of one component, and MultiHash.
func TestPublishedEPKs(t *testing.T) {
	data, err := os.ReadFile("testdata/epk_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Scheme     string      `json:"scheme"`
			Components []component `json:"components"`
			EPK        string      `json:"epk"`
		} `json:"epk_vectors"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for i, v := range file.Vectors {
		if v.Scheme != "v2-multihash" && (v.Scheme != "v2-hash" || len(v.Components) != 1) {
			continue
		}
		if len(v.Components) == 1 && v.Components[0].Type == "infinity" {
			continue // the end of the key space, not a key
		}
		var enc []byte
		for _, c := range v.Components {
			if enc, err = c.append(enc); err != nil {
				t.Fatalf("vector %d: %v", i, err)
			}
		}
		e := HashEncoded(enc)
		if got := fmt.Sprintf("%X", e.Bytes()); got != v.EPK {
			t.Errorf("vector %d, %s %v: EPK %s, want %s", i, v.Scheme, v.Components, got, v.EPK)
		}
		checked[v.Scheme]++
	}
	if checked["v2-hash"] < 10 || checked["v2-multihash"] < 3 {
		t.Errorf("too few vectors: %v", checked)
	}
	t.Log(checked)
}

func TestHashEncodedRefusesOtherBytes(t *testing.T) {
	for _, enc := range []string{"\x04", "\x05123", "\x08abc", "\x01\x01\x01\x01", "\xff", "\x01\x08"} {
		if e := HashEncoded([]byte(enc)); e != (EPK{}) {
			t.Errorf("HashEncoded(%q) has %d levels", enc, e.Levels())
		}
	}
}

func TestNegativeZeroIsZero(t *testing.T) {
	plus, minus := AppendNumber(nil, 0), AppendNumber(nil, math.Copysign(0, -1))
	if string(plus) != string(minus) {
		t.Errorf("%x and %x", plus, minus)
	}
}

func BenchmarkHashEncoded(b *testing.B) {
	enc := AppendString(nil, []byte("tenant-0123456789"))
	b.ReportAllocs()
	var sum uint64
	for b.Loop() {
		e := HashEncoded(enc)
		sum += e.Head()
	}
	_ = sum
}
