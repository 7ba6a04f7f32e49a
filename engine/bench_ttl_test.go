package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// BenchmarkTTL reads, scans and counts items that do not expire, that have a fixed expiry, and
// that follow a default.
func BenchmarkTTL(b *testing.B) {
	ctx := context.Background()
	const items = 20_000
	for name, def := range map[string]ContainerDef{
		"none": {}, "fixed": {DefaultTTL: time.Hour}, "mutable-off": {MutableTTL: true}, "mutable": {MutableTTL: true, DefaultTTL: time.Hour},
	} {
		opts := testOptions(vfs.NewMem())
		clock := newTestClock(opts)
		def.PartitionKey, def.Index = []string{"/k"}, IndexAll()
		db, c := openStore(b, opts, def)
		for i := range items {
			if i%10 == 0 {
				clock.pass(time.Second)
			}
			_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"i%d","k":"a","n":%d}`, i, i%10), nil)
			must(b, err)
		}
		must(b, db.Compact(ctx))
		clock.pass(40 * time.Minute) // some have expired
		ids := make([]string, items)
		for i := range ids {
			ids[i] = fmt.Sprintf("i%d", i)
		}
		key := StringKey("a")
		b.Run("read/"+name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 1<<10)
			for i := 0; b.Loop(); i++ {
				if _, err := c.ReadInto(ctx, key, ids[items-1-i%5000], buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("scan/"+name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, err := range c.Scan(ctx, key, IDRange{}, &ScanOptions{Borrow: true}) {
					must(b, err)
					n++
				}
			}
		})
		b.Run("count/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := c.Count(ctx, AllPartitions(), Eq("/n", 3))
				must(b, err)
			}
		})
	}
}
