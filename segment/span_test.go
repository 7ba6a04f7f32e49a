package segment

import (
	"bytes"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestSpan compares what lies between two EPKs, and walks from one on, with the
// content.
func TestSpan(t *testing.T) {
	rng := randtest.New(t)
	for name, m := range contents(rng) {
		if name == "short ids, no key" {
			continue // its keys have EPKs of several lengths
		}
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			write(t, fsys, "a", m, WriterOptions{})
			r := open(t, fsys, "a", Mode(rng.IntN(2)))
			n := len(m[0].key.EPK)
			for range 50 {
				lo, hi := m[rng.IntN(len(m))].key.EPK, m[rng.IntN(len(m))].key.EPK
				switch rng.IntN(6) {
				case 0:
					lo = make([]byte, n)
				case 1:
					hi = append([]byte{0xFF}, make([]byte, n-1)...)
				case 2:
					hi = bytes.Clone(hi)
					hi[rng.IntN(8)] ^= byte(rng.Uint32())
				}
				if bytes.Compare(lo, hi) > 0 {
					lo, hi = hi, lo
				}
				var want Span
				for _, e := range m {
					// Less the bytes that the table does not hold.
					if bytes.Compare(e.key.EPK[:n-8], lo[:n-8]) >= 0 && bytes.Compare(e.key.EPK[:n-8], hi[:n-8]) < 0 {
						want.Items++
						want.RawBytes += uint64(len(e.ver.Body))
					}
				}
				got, err := r.Span(lo, hi)
				if err != nil || got.Items != want.Items || got.RawBytes != want.RawBytes || got.Bytes < 0 || got.Bytes > r.Size() {
					t.Fatalf("span %x to %x: %+v, %v; want %+v", lo, hi, got, err, want)
				}
				checkWalkFrom(t, r, m, lo)
			}
			var items uint64
			for i := range int(r.Properties().LogicalPartitions) {
				p, err := r.LogicalPartition(i)
				if err != nil || p.ItemsBefore != items && i == 0 || len(p.EPK) != n-8 {
					t.Fatalf("logical partition %d: %+v, %v", i, p, err)
				}
				items = p.ItemsBefore
				if !bytes.Equal(m[items].key.EPK[:n-8], p.EPK) || items > 0 && item.ComparePartition(&m[items-1].key, &m[items].key) == 0 {
					t.Fatalf("logical partition %d: %+v does not begin there", i, p)
				}
			}
		})
	}
}

func checkWalkFrom(t *testing.T, r *Reader, m model, epk []byte) {
	t.Helper()
	rest := m
	for len(rest) > 0 && bytes.Compare(rest[0].key.EPK, epk) < 0 {
		rest = rest[1:]
	}
	w := r.WalkKeysFrom(epk)
	passed := 0
	for w.Next() {
		if bytes.Compare(w.Key().EPK, epk) < 0 {
			passed++
			continue
		}
		if len(rest) == 0 || item.Compare(w.Key(), &rest[0].key) != 0 || w.Version().Seq != rest[0].ver.Seq {
			t.Fatalf("walk from %x: %s", epk, show(w.Key(), w.Version()))
		}
		rest = rest[1:]
	}
	if err := w.Err(); err != nil || len(rest) > 0 {
		t.Fatalf("walk from %x: %d versions not seen, %v", epk, len(rest), err)
	}
}
