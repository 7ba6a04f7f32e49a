package index

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestSpansEnd: what goes over all terms of a span, in many blocks, looks at its
// context.
func TestSpansEnd(t *testing.T) {
	var docs []string
	for i := range 5000 {
		docs = append(docs, fmt.Sprintf(`{"a":"value %05d"}`, i))
	}
	r := mustOpen(t, build(t, mustCompile(t, All()), docs, 0, newTempFiles()))
	span := Exists(Path{}.Member("a"))
	for name, walk := range map[string]func(ctx context.Context) error{
		"Union": func(ctx context.Context) error {
			var s Set
			s.Reset(0, r.Info().Items)
			return r.Union(ctx, span, &s)
		},
		"Count": func(ctx context.Context) error {
			_, _, err := r.Count(ctx, span)
			return err
		},
		"CountIn": func(ctx context.Context) error {
			var s Set
			s.Reset(0, r.Info().Items)
			s.Add(7)
			_, err := r.CountIn(ctx, span, &s)
			return err
		},
	} {
		if err := walk(&randtest.AskedContext{Context: context.Background(), Left: 5}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s of %d blocks: %v", name, r.Info().Blocks, err)
		}
		if err := walk(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
