package lz

import (
	"bytes"
	"testing"
)

// TestSample: samples come from all documents, as many bytes as are wanted.
func TestSample(t *testing.T) {
	if d := Sample([][]byte{{1, 2, 3}}, 16, 1000); d != nil {
		t.Errorf("dictionary of %d bytes from too few samples", len(d))
	}
	samples := make([][]byte, 1000)
	for i := range samples {
		samples[i] = bytes.Repeat([]byte{byte(i)}, 100)
	}
	d := Sample(samples, 16, 8000)
	if len(d) != 8000 {
		t.Errorf("%d bytes", len(d))
	}
	// 80 samples at even distances: at least 70 different ones of 256.
	seen := map[byte]bool{}
	for _, b := range d {
		seen[b] = true
	}
	if len(seen) < 60 {
		t.Errorf("samples of %d kinds", len(seen))
	}
}

// TestSampleOfOneLarge: a document far larger than the others does not take their place. Where most are large, they are taken whole.
func TestSampleOfOneLarge(t *testing.T) {
	const most = 8000
	of := func(d []byte, b byte) int { return bytes.Count(d, []byte{b}) }
	var samples [][]byte
	for range 500 {
		samples = append(samples, bytes.Repeat([]byte{'s'}, 100))
	}
	samples[250] = bytes.Repeat([]byte{'L'}, 100_000)
	if d := Sample(samples, 16, most); len(d) != most || of(d, 'L') > most/16 {
		t.Errorf("%d bytes, of which %d are of the large document", len(d), of(d, 'L'))
	}
	for i := range samples {
		samples[i] = append(bytes.Repeat([]byte{'a'}, 1000), bytes.Repeat([]byte{'z'}, 1000)...)
	}
	if d := Sample(samples, 16, most); len(d) != most || of(d, 'z') != most/2 {
		t.Errorf("%d bytes, of which %d are of the second halves", len(d), of(d, 'z'))
	}
	if d := Sample([][]byte{bytes.Repeat([]byte{'L'}, 100_000), {'s'}, {'s'}}, 16, most); len(d) == 0 {
		t.Error("no dictionary of one large document")
	}
}
