package partmap

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/murmur"
)

// vectors is testdata/epk_vectors.json: published values, data only.
type vectors struct {
	EPKs []struct {
		Scheme     string      `json:"scheme"`
		Components []component `json:"components"`
		EPK        string      `json:"epk"`
	} `json:"epk_vectors"`
	RawHashes []struct {
		Family      string      `json:"family"`
		Description string      `json:"description"`
		Components  []component `json:"components"`
		Murmur32    []string    `json:"murmur3_32_per_component"`
		Murmur128   []string    `json:"murmur3_128_per_component"`
	} `json:"raw_hash_baselines"`
	Murmur []struct {
		Fn    string `json:"fn"`
		Input string `json:"input"`
		Low   string `json:"low"`
		High  string `json:"high"`
		Value uint32 `json:"value"`
	} `json:"murmur3"`
	Boundaries []struct {
		Scheme     string `json:"scheme"`
		Partitions int    `json:"partitions"`
		Index      int    `json:"boundary_index"`
		MidpointOf string `json:"midpoint_of"`
		EPK        string `json:"epk"`
	} `json:"range_boundaries"`
}

type component struct {
	Type   string `json:"type"`
	Value  any    `json:"value"`
	Repeat string `json:"repeat"`
	Count  int    `json:"count"`
	Bits   string `json:"float64_bits"`
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	data, err := os.ReadFile("testdata/epk_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// append appends the component as it is hashed, numbers bit for bit: what the
// engine refuses or normalises (NaN, infinities, negative zero) is among the
// published hashes too.
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
		return binary.LittleEndian.AppendUint64(append(dst, markNumber), bits), err
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

// Every published EPK. Kind Hash over several components (one vector of version
// 2) and kind Range belong to schemes that no Key has; they are computed here
// from the same parts.
func TestPublishedEPKs(t *testing.T) {
	checked := map[string]int{}
	for i, v := range readVectors(t).EPKs {
		scheme := v.Scheme
		var enc []byte
		var err error
		for _, c := range v.Components {
			if enc, err = c.append(enc); err != nil {
				t.Fatalf("vector %d: %v", i, err)
			}
		}
		var got []byte
		switch {
		case v.Scheme == "v2-multihash", v.Scheme == "v2-hash" && len(v.Components) == 1:
			key, err := FromEncoded(enc)
			if err != nil {
				t.Errorf("vector %d: %v", i, err)
			}
			e := key.EPK()
			got = e.Bytes()
		case v.Scheme == "v2-hash":
			got = make([]byte, levelBytes)
			hashComponent(got, enc)
			scheme = "v2-hash, several components"
		case v.Scheme == "v1-hash":
			got = HashV1(enc)
			if key, err := FromEncoded(enc); err == nil && key.Len() == 1 {
				e := key.OfVersion(1).EPK()
				if at, _, err := FromVersion1(got); err != nil || at != e {
					t.Errorf("vector %d: place %v, that of its EPK is %v: %v", i, e, at, err)
				}
			}
		case v.Scheme == "v1-range":
			// The same without the hash, which is the first number.
			got = HashV1(enc)
			got = got[len(appendNumberV1(nil, float64(hashOfV1(enc)))):]
		default:
			t.Errorf("vector %d: unknown scheme %q", i, v.Scheme)
		}
		if text := fmt.Sprintf("%X", got); text != v.EPK {
			t.Errorf("vector %d, %s %v: EPK %s, want %s", i, scheme, v.Components, text, v.EPK)
		}
		checked[scheme]++
	}
	for _, scheme := range []string{"v2-hash", "v2-multihash", "v1-hash", "v1-range"} {
		if checked[scheme] < 3 {
			t.Errorf("%d vectors of %s", checked[scheme], scheme)
		}
	}
	t.Log(checked)
}

// hashOfV1 is the murmur3 x86-32 that version 1 puts first, computed apart from
// HashV1: FF, the end of each string, becomes 00. The strings are short.
func hashOfV1(enc []byte) uint32 {
	var b []byte
	for len(enc) > 0 {
		n := componentLen(enc)
		b = append(b, enc[:n]...)
		if enc[0] == markString {
			b[len(b)-1] = 0
		}
		enc = enc[n:]
	}
	return murmur.Sum32(b)
}

// Raw hashes of encoded components: an EPK before its top bits are cleared. In
// the family "no-terminator" strings lack their end, so it is no encoding of
// the service; its hashes check murmur only.
func TestPublishedRawHashes(t *testing.T) {
	checked := map[string]int{}
	for _, v := range readVectors(t).RawHashes {
		if len(v.Components) != len(v.Murmur128) || len(v.Components) != len(v.Murmur32) {
			t.Fatalf("%s, %s: %d components, %d and %d hashes", v.Family, v.Description, len(v.Components), len(v.Murmur32), len(v.Murmur128))
		}
		for i, c := range v.Components {
			enc, err := c.append(nil)
			if err != nil {
				t.Fatal(err)
			}
			v1 := append([]byte(nil), enc...)
			if c.Type == "string" {
				if v.Family == "no-terminator" {
					enc = enc[:len(enc)-1]
					kept, half := cutV1(enc[1:])
					v1 = append(append([]byte{markString}, kept...), half...)
				} else {
					v1[len(v1)-1] = 0
				}
			}
			h1, h2 := murmur.Sum128(enc)
			if got := fmt.Sprintf("%016X%016X", h2, h1); got != v.Murmur128[i] {
				t.Errorf("%s, %s: x64-128 %s, want %s", v.Family, v.Description, got, v.Murmur128[i])
			}
			if got := fmt.Sprintf("%08X", murmur.Sum32(v1)); got != v.Murmur32[i] {
				t.Errorf("%s, %s: x86-32 %s, want %s", v.Family, v.Description, got, v.Murmur32[i])
			}
			key, err := FromEncoded(enc)
			isKey := true
			if c.Type == "number" {
				f := math.Float64frombits(binary.LittleEndian.Uint64(enc[1:]))
				isKey = !math.IsNaN(f) && !math.IsInf(f, 0) && (f != 0 || !math.Signbit(f))
			}
			if v.Family == "with-terminator" && (err == nil) != isKey {
				t.Errorf("%s: FromEncoded: %v", v.Description, err)
			}
			if e := key.EPK(); err == nil && e.String() != fmt.Sprintf("%016X%016X", h2&(1<<62-1), h1) {
				t.Errorf("%s, %s: EPK %v", v.Family, v.Description, e)
			}
			checked[v.Family]++
		}
	}
	t.Log(checked)
}

func TestPublishedMurmur(t *testing.T) {
	for _, v := range readVectors(t).Murmur {
		var input []byte
		if text, ok := strings.CutPrefix(v.Input, "utf8 "); ok {
			input = []byte(text)
		} else {
			var f float64
			if _, err := fmt.Sscanf(v.Input, "float64 %g little endian", &f); err != nil {
				t.Fatalf("input %q: %v", v.Input, err)
			}
			input = binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
		}
		switch v.Fn {
		case "murmur3_128_x64":
			h1, h2 := murmur.Sum128(input)
			if fmt.Sprint(h1) != v.Low || fmt.Sprint(h2) != v.High {
				t.Errorf("%s: %d, %d, want %s, %s", v.Input, h1, h2, v.Low, v.High)
			}
		case "murmur3_32":
			if h := murmur.Sum32(input); h != v.Value {
				t.Errorf("%s: %d, want %d", v.Input, h, v.Value)
			}
		default:
			t.Errorf("unknown function %q", v.Fn)
		}
	}
}

// Boundaries of version 2 are ours too. Those of version 1 are numbers of 32
// bits in the order-preserving form, at which ours print as the service's.
func TestPublishedBoundaries(t *testing.T) {
	wire := func(e EPK) string { return fmt.Sprintf("%X", e.Version1()) }
	for _, v := range readVectors(t).Boundaries {
		var got string
		switch {
		case v.Scheme == "v2":
			got = EvenBoundaries(v.Partitions)[v.Index-1].String()
		case v.MidpointOf == "slice 24 of 25 to the end of the key space":
			got = wire(Midpoint(Tile(EvenBoundariesV1(25))[24]).HashFloorV1())
		case v.Scheme == "v1-hash" && v.Partitions > 0:
			got = wire(EvenBoundariesV1(v.Partitions)[v.Index-1])
		default:
			t.Errorf("unknown boundary %+v", v)
		}
		if got != v.EPK {
			t.Errorf("%+v: %s", v, got)
		}
		if e, err := ParseEPK(v.EPK); err != nil || e.String() != v.EPK {
			t.Errorf("ParseEPK(%s): %v, %v", v.EPK, e, err)
		}
	}
}

// EvenBoundaries against its definition, computed apart.
func TestEvenBoundariesDefinition(t *testing.T) {
	top := new(big.Int).Sub(new(big.Int).Exp(big.NewInt(2), big.NewInt(126), nil), big.NewInt(1))
	for _, n := range []int{2, 3, 7, 25, 1000} {
		for i, b := range EvenBoundaries(n) {
			want := new(big.Int).Div(top, big.NewInt(int64(n)))
			want.Mul(want, big.NewInt(int64(i+1)))
			if got := b.String(); got != fmt.Sprintf("%032X", want) {
				t.Fatalf("boundary %d of %d: %s, want %032X", i+1, n, got, want)
			}
		}
	}
}
