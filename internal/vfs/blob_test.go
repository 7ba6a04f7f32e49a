package vfs

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBlob: blobs that are written to, resized and shared in any order have what plain slices have, and a long
// row of zeros behind all else takes no memory.
func TestBlob(t *testing.T) {
	const most = 4 * sectorBytes
	rng := rand.New(rand.NewPCG(11, 1))
	blobs, models := make([]blob, 3), make([][]byte, 3)
	for range 20_000 {
		i := rng.IntN(len(blobs))
		x, m := &blobs[i], &models[i]
		switch off := rng.IntN(most); rng.IntN(5) {
		case 0:
			x.resize(int64(off))
			*m = append((*m)[:min(off, len(*m))], make([]byte, max(0, off-len(*m)))...)
		case 1:
			other := rng.IntN(len(blobs))
			blobs[other], models[other] = x.share(), slices.Clone(*m)
		default:
			p := make([]byte, 1+rng.IntN(most-off))
			if rng.IntN(2) == 0 {
				for k := range p {
					p[k] = byte(rng.IntN(3))
				}
			}
			x.writeAt(p, int64(off))
			*m = append(*m, make([]byte, max(0, off+len(p)-len(*m)))...)
			copy((*m)[off:], p)
		}
		for i := range blobs {
			if got := blobs[i].bytes(); !bytes.Equal(got, models[i]) {
				t.Fatalf("blob %d has %d bytes, the model %d, or others", i, len(got), len(models[i]))
			}
		}
		off := rng.Int64N(most)
		p := bytes.Repeat([]byte{7}, 1+rng.IntN(most))
		want := models[i][min(off, int64(len(models[i]))):]
		if n := blobs[i].readAt(p, off); n != min(len(p), len(want)) || !bytes.Equal(p[:n], want[:n]) {
			t.Fatalf("%d bytes at %d of %d, %d were wanted", n, off, len(models[i]), len(p))
		}
		for end := int64(len(models[i])); off < end; off = end {
			first := off - off%sectorBytes
			var got []byte
			for k, s := range blobs[i].sectorsAt(first, end) {
				if s.off != first+int64(k)*sectorBytes {
					t.Fatalf("sector %d is at %d", k, s.off)
				}
				got = append(got, s.data...)
			}
			if !bytes.Equal(got, models[i][first:]) {
				t.Fatalf("the sectors from %d are others", first)
			}
		}
	}
	var log blob
	log.writeAt([]byte("header"), 0)
	for off := int64(6); off < 1<<20; off += 1 << 10 {
		log.writeAt(make([]byte, 1<<10), off)
	}
	if log.size < 1<<20 || cap(log.b) > sectorBytes {
		t.Errorf("%d bytes take %d", log.size, cap(log.b))
	}
}
