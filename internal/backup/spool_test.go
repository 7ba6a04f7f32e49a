package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
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

// TestSpoolDamaged: what the temporary file has not kept gets into no backup.
func TestSpoolDamaged(t *testing.T) {
	s := &spool{fs: vfs.NewMem(), name: "spool"}
	for range 3 {
		if err := s.add(1, 100, bytes.Repeat([]byte("x"), spoolBuffer/2)); err != nil {
			t.Fatal(err)
		}
	}
	each := func() error {
		return s.each(t.Context(), func(wal.Stream, uint64, []byte) error { return nil })
	}
	flip := func(at int64) {
		var b [1]byte
		_, readErr := s.file.ReadAt(b[:], at)
		b[0] ^= 1
		if _, err := s.file.WriteAt(b[:], at); err != nil || readErr != nil {
			t.Fatal(err, readErr)
		}
	}
	for _, at := range []int64{0, 4, 7, 8, 15, 16, spoolHead, s.size - 1} {
		flip(at)
		if err := each(); !errors.Is(err, fault.ErrIO) {
			t.Errorf("byte %d changed: %v, want ErrIO", at, err)
		}
		flip(at)
	}
	if err := each(); err != nil {
		t.Error(err)
	}
}
