package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// BenchmarkOpen opens stores of documents of 0.8 to 2 KB: after a kill, with
// the documents in the log, and after Close, with all of them in segments. The
// first open of a process also pays for fresh memory.
func BenchmarkOpen(b *testing.B) {
	ctx := context.Background()
	for _, n := range []int64{5_000, 50_000, 90_000} {
		b.Run(fmt.Sprintf("killed/%d", n), func(b *testing.B) {
			s := makeBenchStore(b, n, Buffered, FastCompression)
			s.load(b, 0, n)
			// What a killed process leaves: the files as they are now, with
			// no data where there is none.
			killed := b.TempDir()
			if out, err := exec.Command("cp", "-a", "--sparse=always", s.db.dir+"/.", killed).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				dir := b.TempDir()
				if out, err := exec.Command("sh", "-c", `cp -a --sparse=always "$0/." "$1" && sync "$1"/wal/*`, killed, dir).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				b.StartTimer()
				db, err := Open(ctx, dir, &Options{Durability: Buffered})
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				c, err := db.Container("food")
				if err != nil {
					b.Fatal(err)
				}
				for _, i := range []int64{0, n / 2, n - 1} {
					if _, err := c.Read(ctx, s.keys[s.of[i]], s.ids[i]); err != nil {
						b.Fatal(i, err)
					}
				}
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
				os.RemoveAll(dir)
				b.StartTimer()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
	b.Run("clean/200000", func(b *testing.B) {
		s := makeBenchStore(b, 200_000, Buffered, FastCompression)
		s.load(b, 0, s.n)
		s.settle(b)
		dir := s.db.dir
		if err := s.db.Close(); err != nil {
			b.Fatal(err)
		}
		b.ResetTimer()
		for range b.N {
			db, err := Open(ctx, dir, nil)
			b.StopTimer()
			if err != nil {
				b.Fatal(err)
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}
