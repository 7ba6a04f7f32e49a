package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkIndexBesideScans measures how many times as long an index job takes on
// two processors while two goroutines scan all the time, and how many runs there
// are at most.
func BenchmarkIndexBesideScans(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	ctx := context.Background()
	db, err := Open(ctx, b.TempDir(), &Options{Durability: Buffered})
	must(b, err)
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}})
	must(b, err)
	for i := range 100_000 {
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"k%d","n":%d,"tags":["x","y%d"],"text":"some words and %d"}`, i, i%100, i%1000, i%77, i*7919), nil)
		must(b, err)
	}
	must(b, db.Settle(ctx))
	job := func(path string) time.Duration {
		start := time.Now()
		j, err := c.SetIndexPolicy(ctx, IndexPolicy{Include: []string{path}})
		must(b, err)
		must(b, j.Wait(ctx))
		return time.Since(start)
	}
	var alone, beside time.Duration
	var scans atomic.Int64
	for b.Loop() {
		alone += job("/n/?")
		alone += job("/text/?")
		var stop atomic.Bool
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for !stop.Load() {
					for _, err := range c.ScanAll(ctx, nil) {
						if err != nil {
							b.Error(err)
						}
						if stop.Load() {
							break
						}
					}
					scans.Add(1)
				}
			})
		}
		beside += job("/n/?")
		beside += job("/text/?")
		stop.Store(true)
		wg.Wait()
	}
	b.ReportMetric(beside.Seconds()/alone.Seconds(), "times-as-long")
	b.ReportMetric(alone.Seconds()/float64(2*b.N), "s-alone/job")
	b.ReportMetric(float64(scans.Load())/float64(b.N), "scans")
}
