package importer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// TestCountedKeyBytes: the keys that are counted are bounded by their bytes too.
func TestCountedKeyBytes(t *testing.T) {
	w := &writing{Import: &Import{Opaque: true}, keys: make(map[engine.PartitionKey]int64)}
	const most = countedKeyBytes/2000 + 1
	for i := range most + 10 {
		w.count(engine.Meta{Key: engine.StringKey(fmt.Sprintf("%02000d", i))})
	}
	if len(w.keys) > most || !w.done.MoreKeys || w.done.MostOfKey != 1 {
		t.Errorf("%d keys are kept, want at most %d; more: %v", len(w.keys), most, w.done.MoreKeys)
	}
}

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
