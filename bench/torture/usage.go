package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// usage collects what samples are made of.
type usage struct {
	live atomic.Int64 // bytes of the texts that the story has in the store

	mu    sync.Mutex
	takes []time.Duration // of the operations since the last sample
}

func (u *usage) took(d time.Duration) {
	u.mu.Lock()
	u.takes = append(u.takes, d)
	u.mu.Unlock()
}

// p99 returns what 99 of 100 operations did not exceed since the last call.
func (u *usage) p99() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.takes) == 0 {
		return 0
	}
	slices.Sort(u.takes)
	d := u.takes[len(u.takes)*99/100]
	u.takes = u.takes[:0]
	return d
}

// measures are what a sample holds, by the name of the measure.
type measures map[string]float64

// sample tells the parent again and again what the process and the store take.
// Nobody works meanwhile but the store itself.
func (v *victim) sample() error {
	return v.every(v.Sample, func() error {
		v.quiet.Lock()
		defer v.quiet.Unlock()
		if v.usage.live.Load() == 0 {
			return nil
		}
		var mem runtime.MemStats
		debug.FreeOSMemory()
		runtime.ReadMemStats(&mem)
		stats := v.db.Stats()
		runs, partitions := 0, 0
		for _, c := range stats.Containers {
			for _, p := range c.Partitions {
				runs = max(runs, p.Runs)
				partitions++
			}
		}
		b, err := json.Marshal(measures{
			"heap MiB":         float64(mem.HeapAlloc) / (1 << 20),
			"own memory MiB":   float64(procStatus("RssAnon")) / (1 << 10),
			"goroutines":       float64(runtime.NumGoroutine()),
			"descriptors":      float64(procCount("fd")),
			"maps":             float64(procLines("maps")),
			"partitions":       float64(partitions),
			"runs of one":      float64(runs),
			"log MiB":          float64(stats.Log.Bytes) / (1 << 20),
			logMeasure:         logBeyond(stats, v.setting.options.LogBytes),
			"live MiB":         float64(v.usage.live.Load()) / (1 << 20),
			"disk / live":      float64(diskBytes(v.Dir)) / float64(v.usage.live.Load()),
			"p99 ms":           float64(v.usage.p99()) / float64(time.Millisecond),
			"background fails": float64(stats.BackgroundErrors),
		})
		if err != nil {
			return err
		}
		return v.say("sample %s\n", b)
	})
}

// What /proc has of the process; 0 on systems without it.

func procStatus(name string) int {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

func procCount(dir string) int {
	names, _ := os.ReadDir("/proc/self/" + dir)
	return len(names)
}

func procLines(name string) int {
	b, _ := os.ReadFile("/proc/self/" + name)
	return bytes.Count(b, []byte("\n"))
}

// diskBytes is what a store takes on disk. A file with two names counts once.
func diskBytes(dir string) (n int64) {
	seen := make(map[any]bool)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if id := fileID(info); id == nil || !seen[id] {
				n += info.Size()
				seen[id] = true
			}
		}
		return nil
	})
	return n
}

// logMeasure is by how much the log is larger than Options.LogBytes allow. Within
// that it grows and shrinks, and says nothing.
const logMeasure = "log beyond its bound MiB"

func logBeyond(s engine.Stats, logBytes int64) float64 {
	var memtables int64
	for _, c := range s.Containers {
		for _, p := range c.Partitions {
			memtables += p.MemtableBytes
		}
	}
	return float64(max(0, s.Log.Bytes-max(logBytes, 2*memtables))) / (1 << 20)
}

// settled returns the disk that the files of partitions take after everything that can
// go has gone, over what those of a new store with the same documents take. The log has
// a measure of its own. settled waits for what containers keep for a time: else the ratio
// would depend on how long ago the last write was. If something still stays after
// most, that is a violation.
func settled(ctx context.Context, db *engine.DB, most time.Duration) (float64, error) {
	for begin := time.Now(); ; {
		if err := db.Compact(ctx); err != nil {
			return 0, violation("settle: %w", err)
		}
		holders := db.Stats().Holders
		if len(holders) == 0 {
			return overNew(ctx, db)
		}
		if time.Since(begin) > most {
			return 0, violation("settle: after %v without a write %v", most, holders)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// overNew is what the files of partitions of a store take over those of a new store with
// the same documents.
func overNew(ctx context.Context, db *engine.DB) (float64, error) {
	dir, err := os.MkdirTemp(filepath.Dir(db.Dir()), "new-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "store")
	if r, err := engine.Repair(ctx, db.Dir(), made, nil); err != nil {
		return 0, fmt.Errorf("a new store of the same documents: %w", err)
	} else if len(r.Lost)+len(r.Refused) > 0 {
		return 0, violation("a new store lacks documents: %+v", r)
	}
	return float64(diskBytes(filepath.Join(db.Dir(), "p"))) / float64(max(diskBytes(filepath.Join(made, "p")), 1)), nil
}
