//go:build !race

package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// largeChildEnv is set in the process that TestLargeDocumentsMemory starts.
const largeChildEnv = "CLEAVE_LARGE_CHILD"

// TestLargeDocumentsMemory writes documents of the largest size with a small
// budget: what the store holds, looked at in each of its file-system calls, stays
// within what Options.MemoryBudget says. Under the race detector mapped files are on
// the heap too. It runs in a process of its own: what other tests have left on the
// heap decides how much garbage the collector lets stand.
func TestLargeDocumentsMemory(t *testing.T) {
	if os.Getenv(largeChildEnv) == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestLargeDocumentsMemory$")
		child.Env = append(os.Environ(), largeChildEnv+"=1", "GOGC=100") // what is documented is with Go's default
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	ctx := context.Background()
	const budget, documents = minMemoryBudget, 60
	for _, writers := range []int{1, 4} {
		root, err := vfs.CreateRoot(path.Join(t.TempDir(), "large"))
		must(t, err)
		faulty := vfs.NewFaulty(root)
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		var db *DB
		var most atomic.Int64
		look := func() {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			held := int64(now.HeapInuse) - int64(before.HeapInuse) + db.env.Pool.Held()
			for {
				if old := most.Load(); held <= old || most.CompareAndSwap(old, held) {
					return
				}
			}
		}
		db, err = Open(ctx, "large", &Options{MemoryBudget: budget, Durability: Buffered, fs: faulty})
		must(t, err)
		c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll(), Limits: ContainerLimits{ItemBytes: maxItemBytes}})
		must(t, err)
		faulty.SetHook(func(vfs.Call) error {
			look()
			return nil
		})
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(w), 1))
				text := make([]byte, maxItemBytes-1000) // that is hardly compressed
				for i := range text {
					text[i] = '0' + byte(rng.IntN(64))
					if text[i] == '\\' {
						text[i] = ' '
					}
				}
				doc := fmt.Appendf(nil, `{"id":"0000","k":"k%d","text":"%s"}`, w, text)
				for i := range documents / writers {
					copy(doc[7:], fmt.Sprintf("%04d", i))
					if _, err := c.Upsert(ctx, doc, nil); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		must(t, db.Compact(ctx))
		faulty.SetHook(nil)
		must(t, db.Close())
		if limit := int64(budget + (40+4*writers)*maxItemBytes); most.Load() > limit {
			t.Errorf("%d writers: %d MiB are held, at most %d are documented", writers, most.Load()>>20, limit>>20)
		}
	}
}
