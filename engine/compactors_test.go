package engine

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
)

// longFS makes a segment file of one directory only when it is told to, after so many others.
type longFS struct {
	vfs.FS
	dir  string
	left atomic.Int32
	open chan struct{}
}

func (f *longFS) Create(name string) (vfs.File, error) {
	if strings.HasPrefix(name, f.dir) && strings.HasSuffix(name, ".seg.tmp") && f.left.Add(-1) < 0 {
		<-f.open
	}
	return f.FS.Create(name)
}

// TestLongCompaction: with four processors, compactions go on in other partitions while one takes
// long.
func TestLongCompaction(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	synctest.Test(t, func(t *testing.T) {
		fsys := &longFS{FS: vfs.NewMem(), open: make(chan struct{})}
		fsys.left.Store(tiers.Runs)
		o := testOptions(fsys)
		o.manual = false
		db, long := openStore(t, o)
		fsys.dir = long.routing.Load().parts[0].Dir
		other, err := db.CreateContainer(t.Context(), "other", byK)
		must(t, err)
		flush := func(c *Container) (runs int) {
			for i := range tiers.Runs {
				must(t, second(c.Upsert(t.Context(), smallDocument(fmt.Sprint(i), "k", 50), nil)))
				must(t, db.Flush(t.Context()))
			}
			synctest.Wait()
			return c.Partitions()[0].Runs
		}
		if runs := flush(long); runs != tiers.Runs {
			t.Errorf("the long compaction has ended: %d runs", runs)
		}
		if runs := flush(other); runs != 1 {
			t.Errorf("beside a long compaction: %d runs", runs)
		}
		close(fsys.open)
		synctest.Wait()
		if runs := long.Partitions()[0].Runs; runs != 1 {
			t.Errorf("after the long compaction: %d runs", runs)
		}
		must(t, db.Close())
	})
}
