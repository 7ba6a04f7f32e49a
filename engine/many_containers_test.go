package engine

import (
	"context"
	"flag"
	"fmt"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

func containerName(n int) string { return fmt.Sprintf("tenant-%05d", n) }

// TestTenThousandContainers makes, lists, opens and drops as many containers as a store
// can have. What one costs must not grow with the number of those that are there.
func TestTenThousandContainers(t *testing.T) {
	most := maxContainers
	if raceEnabled {
		most /= 10
	}
	ctx := context.Background()
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	var written, calls, largest int64 // of the store manifest; of all; a file of the store manifest
	faulty.SetHook(func(c vfs.Call) error {
		calls++
		if _, ok := manifest.ParseName(strings.TrimSuffix(c.Name, manifest.TempSuffix)); ok && c.Op == vfs.OpWrite {
			written += c.Len
			largest = max(largest, c.Len)
		}
		return nil
	})
	opts := &Options{fs: faulty, manual: true}
	db, err := Open(ctx, "mem", opts)
	must(t, err)
	def := ContainerDef{PartitionKey: []string{"/k"}}
	perThousand := make([]int64, 0, 10)
	for n := range most {
		if n%(most/10) == 0 {
			perThousand = append(perThousand, calls)
		}
		_, err := db.CreateContainer(ctx, containerName(n), def)
		must(t, err)
	}
	each := written / int64(most)
	t.Logf("%d containers: %d bytes of manifests each, %d calls each, at last %d bytes in all", most, each, calls/int64(most), largest)
	if each > 16<<10 {
		t.Errorf("%d bytes of store manifests were written for each of %d containers", each, most)
	}
	first, last := perThousand[1]-perThousand[0], calls-perThousand[len(perThousand)-1]
	if last > first*5/4 {
		t.Errorf("the first containers took %d calls, the last ones %d", first, last)
	}
	c, err := db.Container(containerName(most - 1))
	must(t, err)
	_, err = c.Upsert(ctx, []byte(`{"id":"a","k":"b"}`), nil)
	must(t, err)
	must(t, db.Close())

	calls = 0
	db, err = Open(ctx, "mem", opts)
	must(t, err)
	if each := calls / int64(most); each > 4 {
		t.Errorf("to open a container took %d calls", each)
	}
	n := 0
	for info := range db.Containers() {
		if info.Name != containerName(n) {
			t.Fatalf("container %d is %q", n, info.Name)
		}
		n++
	}
	if n != most {
		t.Fatalf("%d containers after a reopen", n)
	}
	if most == maxContainers {
		if _, err = db.CreateContainer(ctx, "more", def); err == nil {
			t.Error("the store took more containers than it can have")
		}
	}
	written = 0
	for n := range 100 {
		must(t, db.DropContainer(ctx, containerName(n)))
	}
	if each := written / 100; each > 16<<10 {
		t.Errorf("%d bytes of store manifests were written for each drop", each)
	}
	must(t, db.Close())
	if names, err := mem.List("."); err != nil || len(names) > 30 {
		t.Errorf("%d files are left in the directory of the store, %v", len(names), err)
	}
	if names, err := mem.List(manifest.PartitionsDir); err != nil || len(names) != most-100 {
		t.Errorf("%d partitions are left, %v", len(names), err)
	}
}

var containersFlag = flag.Int("containers", 1000, "how many containers BenchmarkContainers makes, each time")

// BenchmarkContainers makes containers, and opens a store that has them, on a real disk:
//
//	go test ./engine -run '^$' -bench Containers -benchtime 1x -containers 10000
func BenchmarkContainers(b *testing.B) {
	benchmarkShape(b, *containersFlag, 1)
}

var partitionsFlag = flag.Int("partitions", 1000, "how many physical partitions the container of BenchmarkPartitions has")

// BenchmarkPartitions is BenchmarkContainers for the physical partitions of one container.
func BenchmarkPartitions(b *testing.B) {
	benchmarkShape(b, 1, *partitionsFlag)
}

func benchmarkShape(b *testing.B, containers, partitions int) {
	ctx := context.Background()
	ms := func(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1e3 }
	for b.Loop() {
		dir := path.Join(b.TempDir(), "store")
		before := heapInUse()
		start := time.Now()
		db, err := Open(ctx, dir, nil)
		must(b, err)
		for n := range containers {
			_, err := db.CreateContainer(ctx, containerName(n), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: partitions})
			must(b, err)
		}
		b.ReportMetric(ms(start), "ms-create")
		b.ReportMetric(float64(heapInUse()-before)/float64(containers*partitions), "heap-B/partition")
		start = time.Now()
		must(b, db.Close())
		b.ReportMetric(ms(start), "ms-close")
		start = time.Now()
		db, err = Open(ctx, dir, nil)
		must(b, err)
		b.ReportMetric(ms(start), "ms-open")
		must(b, db.Close())
	}
}

// heapInUse returns the bytes of objects that are reachable.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
