package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// benchDir returns an empty real file system; TMPDIR chooses where.
func benchDir(b *testing.B) vfs.FS {
	fs, err := vfs.OpenRoot(b.TempDir())
	must(b, err)
	b.Cleanup(func() {
		if err := fs.(io.Closer).Close(); err != nil {
			b.Error(err)
		}
	})
	must(b, vfs.MkdirSync(fs, logDir))
	return fs
}

// benchLog returns a log on it, with the background work that an owner does.
func benchLog(b *testing.B) *Log {
	fs := benchDir(b)
	var st State
	l, _ := mustOpen(b, fs, &st, Options{})
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.SpareWanted():
			}
			if err := l.MakeSpare(ctx); err != nil && !errors.Is(err, context.Canceled) {
				b.Error(err)
			}
			// Nothing is kept: every full file may be used again.
			if err := l.Drop(l.FirstNeeded(func(Stream, uint64) uint64 { return l.LastSeq() })); err != nil {
				b.Error(err)
			}
		}
	})
	b.Cleanup(func() {
		cancel()
		wg.Wait()
		if _, err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

// BenchmarkCommit appends records and waits for each, buffered or synced.
func BenchmarkCommit(b *testing.B) {
	for _, mode := range []string{"buffered", "sync"} {
		for _, committers := range []int{1, 16, 64} {
			for _, size := range []int{200, 1024} {
				b.Run(fmt.Sprintf("%s/committers=%d/bytes=%d", mode, committers, size), func(b *testing.B) {
					benchCommit(b, committers, size, mode == "sync")
				})
			}
		}
	}
}

func benchCommit(b *testing.B, committers, size int, synced bool) {
	l := benchLog(b)
	head, body := make([]byte, 40), []byte(filler(1, size-40))
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range committers {
		n := b.N / committers
		if i < b.N%committers {
			n++
		}
		wg.Go(func() {
			for range n {
				_, pos, err := l.Append(Stream(i+1), TypeWrite, 1, head, body)
				if err == nil {
					err = l.Wait(pos, synced)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "commits/s")
	if s := l.Stats(); s.Syncs > 0 && synced {
		b.ReportMetric(float64(b.N)/float64(s.Syncs), "commits/sync")
	}
}

// BenchmarkAppend appends records that somebody else waits for, one goroutine.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 1024} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			l := benchLog(b)
			head, body := make([]byte, 40), []byte(filler(1, size-40))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := l.Append(1, TypeWrite, 1, head, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRecover reads a log of 64 MiB out of the page cache.
func BenchmarkRecover(b *testing.B) {
	fs := benchDir(b)
	var st State
	l, _ := mustOpen(b, fs, &st, Options{})
	body := []byte(filler(1, 1000))
	const records = 64 << 10
	for range records {
		_, _, err := l.Append(1, TypeWrite, 1, nil, body)
		must(b, err)
	}
	mustClose(b, l, &st)
	b.SetBytes(records * int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		rec, err := Recover(b.Context(), fs, logDir, st, Options{}, func(*Record) error { return nil })
		if err != nil || rec.LastSeq != records {
			b.Fatal(rec, err)
		}
	}
}
