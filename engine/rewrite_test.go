package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/lsm"
)

// writeAnew writes a file of a tree anew.
func writeAnew(ctx context.Context, t *lsm.Tree, f *lsm.File) error {
	_, _, err := t.Rewrite(ctx, &lsm.Rewriting{Wants: func(g *lsm.File) bool { return g == f }, Stop: func() bool { return false }})
	return err
}
