package engine

import "context"

// writeAnew writes a file of a tree anew.
func writeAnew(ctx context.Context, t *tree, f *file) error {
	_, _, err := t.rewrite(ctx, &rewriting{wants: func(g *file) bool { return g == f }, stop: func() bool { return false }})
	return err
}
