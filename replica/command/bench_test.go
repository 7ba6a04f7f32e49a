package command

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// BenchmarkEntry is what an entry with four puts of 300 bytes costs a replica, without Raft and its log: encoded is what
// the leader does before it proposes the entry, applied what each replica does when it is committed.
func BenchmarkEntry(b *testing.B) {
	ctx := context.Background()
	db, err := engine.Open(ctx, b.TempDir(), &engine.Options{MemoryBudget: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	c, err := db.CreateContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Replicated: true})
	if err != nil {
		b.Fatal(err)
	}
	var commands []*Command
	for i := range 4 {
		key := fmt.Sprintf("key%03d", i)
		body := fmt.Appendf(nil, `{"id":%q,"k":%q,"n":%d,"text":"%0260d"}`, key, key, i, i)
		commands = append(commands, &Command{ID: ID{byte(i)}, Time: time.UnixMilli(1_700_000_000_000), Batches: []Batch{{Key: engine.StringKey(key), Operations: []Operation{{Kind: Upsert, Body: body}}}}})
	}
	entry := func() []byte {
		var encoded [][]byte
		for _, cmd := range commands {
			encoded = append(encoded, cmd.Append(nil))
		}
		return Gather(nil, encoded)
	}
	b.Run("encoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			entry()
		}
	})
	encoded, partition := entry(), c.Partitions()[0].ID
	index, err := c.AppliedIndex(partition)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("applied", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			index++
			cmds, err := DecodeEntry(encoded)
			if err != nil {
				b.Fatal(err)
			}
			e := engine.Entry{Index: index, Time: cmds[0].Time, Durability: engine.Buffered}
			for _, cmd := range cmds {
				batches, err := cmd.Build(c)
				if err != nil {
					b.Fatal(err)
				}
				e.Batches = append(e.Batches, batches...)
			}
			if _, err = c.ApplyAt(ctx, partition, e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
