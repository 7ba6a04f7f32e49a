package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// starved is a store of 100,000 documents on two processors, which goroutines that
// scan can keep busy.
type starved struct {
	*testing.B
	db    *DB
	c     *Container
	stop  atomic.Bool
	scans atomic.Int64
	wg    sync.WaitGroup
}

const starvedDocuments = 100_000

func newStarved(b *testing.B, o *Options) *starved {
	procs := runtime.GOMAXPROCS(2)
	b.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	s := &starved{B: b}
	var err error
	s.db, err = Open(b.Context(), b.TempDir(), o)
	must(b, err)
	b.Cleanup(func() { s.db.Close() })
	s.c, err = s.db.CreateContainer(b.Context(), "c", ContainerDef{PartitionKey: []string{"/k"}})
	must(b, err)
	for i := range starvedDocuments {
		s.put(i, i)
	}
	must(b, s.db.Compact(b.Context()))
	return s
}

func (s *starved) put(i, version int) {
	doc := fmt.Appendf(nil, `{"id":"%d","k":"k%d","n":%d,"tags":["x","y%d"],"text":"some words and %d"}`, i, i%100, version%1000, version%77, version*7919)
	if _, err := s.c.Upsert(context.Background(), doc, nil); err != nil {
		s.Error(err)
	}
}

// job makes an index of one path and returns how long that took.
func (s *starved) job(path string) time.Duration {
	start := time.Now()
	j, err := s.c.SetIndexPolicy(context.Background(), IndexPolicy{Include: []string{path}})
	must(s, err)
	must(s, j.Wait(context.Background()))
	return time.Since(start)
}

// scan keeps two goroutines scanning until end is called.
func (s *starved) scan() (end func()) {
	s.stop.Store(false)
	for range 2 {
		s.wg.Go(func() {
			for !s.stop.Load() {
				for _, err := range s.c.ScanAll(context.Background(), nil) {
					if err != nil {
						s.Error(err)
					}
					if s.stop.Load() {
						break
					}
				}
				s.scans.Add(1)
			}
		})
	}
	return func() {
		s.stop.Store(true)
		s.wg.Wait()
	}
}

// BenchmarkIndexBesideScans measures how many times as long an index job takes on
// two processors while two goroutines scan all the time.
func BenchmarkIndexBesideScans(b *testing.B) {
	s := newStarved(b, &Options{Durability: Buffered})
	var alone, beside time.Duration
	for b.Loop() {
		alone += s.job("/n/?") + s.job("/text/?")
		end := s.scan()
		beside += s.job("/n/?") + s.job("/text/?")
		end()
	}
	b.ReportMetric(beside.Seconds()/alone.Seconds(), "times-as-long")
	b.ReportMetric(alone.Seconds()/float64(2*b.N), "s-alone/job")
	b.ReportMetric(float64(s.scans.Load())/float64(b.N), "scans")
}

// BenchmarkRunsBesideScans overwrites 2,000 documents a second on two processors
// while two goroutines scan all the time: how many runs there are in the first and in
// the last tenth of the time, and how many times as long an index job then takes.
// With -benchtime 10m that is ten minutes.
func BenchmarkRunsBesideScans(b *testing.B) {
	const perSecond = 2000
	s := newStarved(b, &Options{Durability: Buffered, MemoryBudget: minMemoryBudget})
	alone := s.job("/n/?") + s.job("/text/?")
	var runs []int // in each second
	end := s.scan()
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for b.Loop() {
		for i := range perSecond {
			i += len(runs) * perSecond
			s.put(i*7919%starvedDocuments, i)
		}
		most := 0
		for _, p := range s.db.Stats().Containers[0].Partitions {
			most = max(most, p.Runs)
		}
		runs = append(runs, most)
		<-seconds.C
	}
	beside := s.job("/n/?") + s.job("/text/?")
	end()
	tenth := max(1, len(runs)/10)
	b.ReportMetric(float64(slices.Max(runs[:tenth])), "runs-first")
	b.ReportMetric(float64(slices.Max(runs)), "runs-most")
	b.ReportMetric(float64(slices.Max(runs[len(runs)-tenth:])), "runs-last")
	b.ReportMetric(beside.Seconds()/alone.Seconds(), "times-as-long")
	b.ReportMetric(float64(s.scans.Load())/float64(b.N), "scans/op")
}
