package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
)

// bareFiles are the files of the partitions of a store, to be read at random
// places.
type bareFiles struct {
	files []*os.File // one for each file, however many names it has
	ends  []int64    // in pages, of a file and those before it
}

const barePage = 4 << 10

// openBare opens the files of a store that have a page at least.
func openBare(dir string) (b *bareFiles, err error) {
	b = new(bareFiles)
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	var seen []fs.FileInfo
	root, pages := filepath.Join(dir, harness.PartitionsName), int64(0)
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() < barePage || slices.ContainsFunc(seen, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			return err
		}
		seen = append(seen, info)
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		pages += info.Size() / barePage
		b.files, b.ends = append(b.files, f), append(b.ends, pages)
		return readsRandomly(f)
	})
	if err == nil && pages == 0 {
		err = fmt.Errorf("%s has no file of %d bytes: load something first", root, barePage)
	}
	return b, err
}

func (b *bareFiles) close() {
	for _, f := range b.files {
		f.Close()
	}
}

// reader returns a reader of random pages.
func (b *bareFiles) reader(int) func(uint64) error {
	buf := make([]byte, barePage)
	return func(random uint64) error {
		page := int64(random % uint64(b.ends[len(b.ends)-1]))
		i := sort.Search(len(b.ends), func(i int) bool { return b.ends[i] > page })
		if i > 0 {
			page -= b.ends[i-1]
		}
		_, err := b.files[i].ReadAt(buf, page*barePage)
		return err
	}
}

// timerPeriod is how long the goroutine sleeps that tells how late timers are.
const timerPeriod = time.Millisecond

// readTogether lets readers read for a time, each at random places of its own, and
// once at least.
func readTogether(ctx context.Context, readers int, d time.Duration, seed uint64, reader func(worker int) func(uint64) error) (coldReads, error) {
	var group sync.WaitGroup
	var stop atomic.Bool
	latencies := make([]measure.Latencies, readers)
	failures := make([]error, readers)
	start := time.Now()
	for i := range readers {
		read, rng := reader(i), rand.New(rand.NewPCG(seed, uint64(i)))
		group.Go(func() {
			for first := true; first || !stop.Load(); first = false {
				begin := time.Now()
				if err := read(rng.Uint64()); err != nil {
					failures[i] = err
					return
				}
				latencies[i].Record(time.Since(begin))
			}
		})
	}
	var late measure.Latencies
	for first := true; first || ctx.Err() == nil && time.Since(start) < d; first = false {
		now := time.Now()
		time.Sleep(timerPeriod)
		late.Record(time.Since(now) - timerPeriod)
	}
	stop.Store(true)
	took := time.Since(start)
	group.Wait()
	var all measure.Latencies
	for i := range latencies {
		all.Add(&latencies[i])
	}
	r := coldReads{PerSecond: float64(all.Count()) / took.Seconds(), P50: all.Micros(50), P99: all.Micros(99), TimerLate: late.Micros(99)}
	return r, errors.Join(append(failures, ctx.Err())...)
}
