package lsm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// asked counts how often it is asked whether it has ended, which an output does whenever it yields.
type asked struct {
	context.Context
	times int
}

func (a *asked) Err() error { a.times++; return nil }

// TestPieces: an output yields after 64 items, or after fewer that are large: 64 documents
// of 16 KiB would keep others waiting for milliseconds.
func TestPieces(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	for _, c := range []struct{ items, bytes, least, most int }{{640, 10, 10, 10}, {64, 16 << 10, 7, 9}, {4, 1 << 20, 3, 4}} {
		s := lsmtest.New(t, 1<<20)
		s.Env.FS, s.Env.FileBytes = vfs.NewMem(), 1<<30
		ctx := &asked{Context: context.Background()}
		out := s.Tree().NewOutput(ctx, 0, nil, nil)
		out.Codec = segment.None
		for i := range c.items {
			body := make([]byte, c.bytes)
			random.Read(body) // never fails
			if err := out.Step(); err != nil {
				t.Fatal(err)
			}
			k := lsmtest.Key(partmap.String("a"), fmt.Sprintf("%04d", i))
			if err := out.Add(&k, &item.Version{Seq: 1, Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		if ctx.times < c.least || ctx.times > c.most {
			t.Errorf("%d items of %d bytes: it yields %d times, %d to %d are wanted", c.items, c.bytes, ctx.times, c.least, c.most)
		}
		out.Published = true // it has no manifest from which its files could be missing
		out.Abandon()
	}
}
