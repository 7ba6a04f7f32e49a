package murmur

import (
	"encoding/binary"
	"math"
	"testing"
)

func float64Bytes(f float64) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
}

// The published values of the SDKs of Azure Cosmos DB: test_murmurhash3.py of
// azure-sdk-for-python, murmur_hash.rs of azure-sdk-for-rust and
// MurmurHash3Test.cs of azure-cosmos-dotnet-v3.
func TestPublishedValues(t *testing.T) {
	f := func(name string, input []byte, low, high uint64) {
		t.Helper()
		if h1, h2 := Sum128(input); h1 != low || h2 != high {
			t.Errorf("Sum128(%s) = %d, %d, want %d, %d", name, h1, h2, low, high)
		}
	}
	f("374.0", float64Bytes(374), 16628891264555680919, 12953474369317462)
	f("afdgdd", []byte("afdgdd"), 2792699143512860960, 15069672278200047189)
	f("sample-test", []byte("sample-test"), 9863137013172825203, 15859947107521786564)
	f("nothing", nil, 0, 0)

	g := func(name string, input []byte, want uint32) {
		t.Helper()
		if h := Sum32(input); h != want {
			t.Errorf("Sum32(%s) = %d, want %d", name, h, want)
		}
	}
	g("hello", []byte("hello"), 613153351)
	g("afdgdd", []byte("afdgdd"), 1099701186)
	g("374.0", float64Bytes(374), 3717946798)
}

// Every byte of the input matters, at each length around the block size.
func TestEveryByteCounts(t *testing.T) {
	for n := 1; n <= 48; n++ {
		b := make([]byte, n)
		h1, h2 := Sum128(b)
		h := Sum32(b)
		for i := range b {
			b[i] = 1
			if g1, g2 := Sum128(b); g1 == h1 || g2 == h2 {
				t.Errorf("Sum128 of %d bytes ignores byte %d", n, i)
			}
			if Sum32(b) == h {
				t.Errorf("Sum32 of %d bytes ignores byte %d", n, i)
			}
			b[i] = 0
		}
	}
}

func BenchmarkSum128(b *testing.B) {
	input := []byte("tenant-0123456789-abcdef")
	b.ReportAllocs()
	for b.Loop() {
		Sum128(input)
	}
}
