package engine

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkDeleteLogicalPartition deletes keys with so many items, which lie in
// files.
func BenchmarkDeleteLogicalPartition(b *testing.B) {
	ctx := context.Background()
	for _, items := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(items), func(b *testing.B) {
			db, err := Open(ctx, b.TempDir(), &Options{Durability: Buffered})
			must(b, err)
			defer db.Close()
			c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}})
			must(b, err)
			const keys = 2
			_, err = c.Load(ctx, func(yield func([]byte, error) bool) {
				for k := range keys {
					for i := range items {
						if !yield(doc(fmt.Sprint("i", i), fmt.Sprint("k", k), i), nil) {
							return
						}
					}
				}
			}, nil)
			must(b, err)
			must(b, db.Flush(ctx))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				must(b, c.DeleteLogicalPartition(ctx, StringKey(fmt.Sprint("k", n%keys)), nil))
				n++
			}
		})
	}
}
