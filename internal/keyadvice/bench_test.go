package keyadvice

import (
	"fmt"
	"testing"
)

// BenchmarkAdd counts documents by three candidates, with keys that are kept
// and, for the last one, too many of them.
func BenchmarkAdd(b *testing.B) {
	s, err := NewStudy([][]string{{"/tenant"}, {"/tenant", "/user"}, {"/id"}}, Options{MaxKeys: 100_000})
	if err != nil {
		b.Fatal(err)
	}
	docs := make([][]byte, 1<<19)
	for i := range docs {
		docs[i] = fmt.Appendf(nil, `{"id":"%d","tenant":"t%d","user":%d,"text":"lorem ipsum dolor sit amet"}`, i*7919%1000003, i%1000, i%9973)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(docs[0])))
	for i := 0; b.Loop(); i++ {
		if err := s.Add(docs[i%len(docs)]); err != nil {
			b.Fatal(err)
		}
	}
}
