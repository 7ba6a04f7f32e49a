package engine

import "context"

// writeAnew writes a file anew. older are the runs that are older than it.
func (t *tree) writeAnew(ctx context.Context, f *file, older []*run) error {
	_, err := t.rewriteFile(ctx, f, older, 1, &rewriting{stop: func() bool { return false }})
	return err
}
