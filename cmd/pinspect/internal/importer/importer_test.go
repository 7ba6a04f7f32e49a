package importer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// TestSkipExistingThrottled: where throughput is limited, an import of bytes that skips
// existing documents waits, and goes on: it does not read again what it was about to write.
func TestSkipExistingThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := cleavetest.New(t)
		c, err := s.DB().CreateContainer(ctx, "c", engine.ContainerDef{Kind: engine.Opaque, PartitionKey: []string{"/key"}, Throughput: 1})
		if err != nil {
			t.Fatal(err)
		}
		w := writing{Import: &Import{Opaque: true, SkipExisting: true}}
		for _, id := range []string{"a", "b", "c"} {
			doc := document{key: engine.StringKey("k"), id: id, body: []byte(id)}
			if _, err := w.write(ctx, c, &doc); err != nil {
				t.Fatalf("document %s: %v", id, err)
			}
			if _, err := w.write(ctx, c, &doc); !errors.Is(err, engine.ErrExists) {
				t.Errorf("document %s once more: %v", id, err)
			}
		}
	})
}
