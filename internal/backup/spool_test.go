package backup

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// TestSpool keeps records in memory and in a file, and gives them back in order.
func TestSpool(t *testing.T) {
	for _, size := range []int{10, spoolBuffer / 3} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			mem := vfs.NewMem()
			s := &spool{fs: mem, name: "spool"}
			payload := func(i int) []byte { return fmt.Appendf(nil, "%0*d", size, i) }
			const n = 10
			for i := range n {
				if err := s.add(wal.Stream(i), uint64(i+100), payload(i)); err != nil {
					t.Fatal(err)
				}
			}
			if inFile := len(mem.Names()) > 0; inFile != (size > 10) {
				t.Errorf("in a file: %v", inFile)
			}
			next := 0
			err := s.each(context.Background(), func(stream wal.Stream, highest uint64, got []byte) error {
				if stream != wal.Stream(next) || highest != uint64(next+100) || string(got) != string(payload(next)) {
					t.Errorf("record %d: stream %d, highest %d, %d bytes", next, stream, highest, len(got))
				}
				next++
				return nil
			})
			if err != nil || next != n {
				t.Errorf("%d records, %v", next, err)
			}
			s.remove()
			if names := mem.Names(); len(names) > 0 {
				t.Errorf("%q is left", names)
			}
		})
	}
}
