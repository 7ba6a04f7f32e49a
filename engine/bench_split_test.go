package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkSplit splits a partition of a size, and merges its halves again,
// while one goroutine writes with Synced and one with Buffered durability. It
// reports, in microseconds, the time under the commit locks, that of the other
// phases, and the longest gap between acknowledged writes within 100 ms of a
// cut, beside that in windows where nothing happened. None may grow with the
// size:
//
//	go test -run '^$' -bench 'Split/' -benchtime 50x ./engine
func BenchmarkSplit(b *testing.B) {
	for _, size := range []int64{10 << 20, 100 << 20, 1 << 30} {
		b.Run(fmt.Sprintf("%dMiB", size>>20), func(b *testing.B) { benchmarkSplit(b, size) })
	}
}

const splitDocument = 1000 // bytes

func benchmarkSplit(b *testing.B, size int64) {
	ctx := context.Background()
	db, err := Open(ctx, b.TempDir(), &Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		b.Fatal(err)
	}
	n := int(size / splitDocument)
	rng := rand.New(rand.NewPCG(1, 2))
	document := func(dst []byte, i int) []byte {
		dst = fmt.Appendf(dst[:0], `{"id":"i%d","k":"k%d","v":"`, i, i%1000)
		for len(dst) < splitDocument-2 {
			dst = append(dst, "abcdefghijklmnopqrstuvwxyz012345"[rng.Uint64()&31])
		}
		return append(dst, `"}`...)
	}
	_, err = c.Load(ctx, func(yield func([]byte, error) bool) {
		var doc []byte
		for i := range n {
			if doc = document(doc, i); !yield(doc, nil) {
				return
			}
		}
	}, &LoadOptions{Durability: Buffered})
	if err == nil {
		err = db.Flush(ctx)
	}
	if err != nil {
		b.Fatal(err)
	}
	acks := startWriters(b, c, n)
	cuts := make(map[ReshapeKind][]ReshapeProgress)
	var times []time.Time
	begun := time.Now()
	run := func(job *ReshapeJob, err error) {
		if err == nil {
			err = job.Wait(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
		p := job.Progress()
		cuts[p.Kind] = append(cuts[p.Kind], p)
		times = append(times, time.Now().Add(-p.Inherit))
		<-time.After(100 * time.Millisecond) // nothing happens in between
	}
	for b.Loop() {
		run(c.Split(ctx, c.Partitions()[0].ID, nil))
		parts := c.Partitions()
		run(c.Merge(ctx, parts[0].ID, parts[1].ID))
	}
	ended := time.Now()
	all := acks.stop()
	report := func(name string, list []float64) {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name+"-µs")
		b.ReportMetric(list[len(list)-1], name+"-max-µs")
	}
	of := func(kind ReshapeKind, f func(*ReshapeProgress) time.Duration) (list []float64) {
		for i := range cuts[kind] {
			list = append(list, float64(f(&cuts[kind][i]).Nanoseconds())/1e3)
		}
		return list
	}
	report("split-pause", of(ReshapeSplit, func(p *ReshapeProgress) time.Duration { return p.Pause }))
	report("merge-pause", of(ReshapeMerge, func(p *ReshapeProgress) time.Duration { return p.Pause }))
	report("prepare", of(ReshapeSplit, func(p *ReshapeProgress) time.Duration { return p.Prepare }))
	report("commit", of(ReshapeSplit, func(p *ReshapeProgress) time.Duration { return p.Commit }))
	report("inherit", of(ReshapeSplit, func(p *ReshapeProgress) time.Duration { return p.Inherit }))
	var at, controls []float64
	for _, t := range times {
		at = append(at, longestGap(all, t))
	}
	for range 1000 {
		controls = append(controls, longestGap(all, begun.Add(time.Duration(rng.Int64N(int64(ended.Sub(begun)))))))
	}
	slices.Sort(controls)
	report("gap", at)
	b.ReportMetric(controls[len(controls)/2], "control-gap-µs")
	b.ReportMetric(controls[len(controls)*9/10], "control-gap-p90-µs")
	b.ReportMetric(float64(len(all))/ended.Sub(begun).Seconds(), "writes/s")
	for _, p := range append(cuts[ReshapeSplit], cuts[ReshapeMerge]...) {
		if p.CopiedBytes != 0 {
			b.Errorf("%d bytes copied", p.CopiedBytes)
		}
	}
}

// longestGap returns the longest time, in microseconds, between two
// acknowledged writes within 100 ms of t.
func longestGap(acks []int64, t time.Time) float64 {
	const window = 100 * time.Millisecond
	lo, _ := slices.BinarySearch(acks, t.Add(-window).UnixNano())
	hi, _ := slices.BinarySearch(acks, t.Add(window).UnixNano())
	var longest int64
	for i := max(lo, 1); i < hi; i++ {
		longest = max(longest, acks[i]-acks[i-1])
	}
	return float64(longest) / 1e3
}

// writers write until they are stopped and note when each write was
// acknowledged.
type writers struct {
	done atomic.Bool
	wg   sync.WaitGroup
	acks [2][]int64
}

func startWriters(b *testing.B, c *Container, n int) *writers {
	w := new(writers)
	for i, durability := range []Durability{Synced, Buffered} {
		w.wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			steady := time.NewTicker(100 * time.Microsecond)
			defer steady.Stop()
			for !w.done.Load() {
				at := rng.IntN(n)
				doc := fmt.Appendf(nil, `{"id":"i%d","k":"k%d","v":"written %d"}`, at, at%1000, i)
				if _, err := c.Upsert(context.Background(), doc, &WriteOptions{Durability: durability}); err != nil {
					b.Error(err)
					return
				}
				w.acks[i] = append(w.acks[i], time.Now().UnixNano())
				if durability == Buffered {
					<-steady.C // not all that is possible
				}
			}
		})
	}
	return w
}

// stop returns the times of all acknowledgements, in order.
func (w *writers) stop() []int64 {
	w.done.Store(true)
	w.wg.Wait()
	all := append(w.acks[0], w.acks[1]...)
	slices.Sort(all)
	return all
}
