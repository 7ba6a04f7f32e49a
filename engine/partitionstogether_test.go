package engine

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestPartitionsTogether: Flush and Compact work on several partitions at a time. The file of
// the first partition is not made before one of another partition is.
func TestPartitionsTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3)) // one is left to others
	ctx := context.Background()
	var mu sync.Mutex
	var first string // directory of the first partition; "-": no file has to wait
	var second chan struct{}
	begin := func() {
		mu.Lock()
		defer mu.Unlock()
		first, second = "", make(chan struct{})
	}
	opts := testOptions(&openHooked{vfs.NewMem(), func(name string) error {
		if !strings.Contains(name, ".seg") {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		switch dir := path.Dir(name); first {
		case "":
			first = dir
			mu.Unlock()
			<-second
			mu.Lock()
		case dir, "-":
		default:
			first = "-"
			close(second)
		}
		return nil
	}})
	opts.atOnce, opts.memtableBytes = 2, 1<<20
	first = "-"
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 4})
	for round := range 2 {
		for i := range 40 {
			_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"%d","round":%d}`, i, i, round), nil)
			must(t, err)
		}
		begin()
		must(t, db.Flush(ctx))
	}
	begin()
	must(t, db.Compact(ctx))
	for _, p := range c.Partitions() {
		if p.Runs != 1 {
			t.Errorf("partition %d has %d runs", p.ID, p.Runs)
		}
	}
}
