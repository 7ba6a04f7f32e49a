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
