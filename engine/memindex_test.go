package engine

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestMemtableIndexMemory: what indexes of memtables hold is counted with the
// memtables, bounded, and given back; without memory for them answers are the same.
func TestMemtableIndexMemory(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes = 1 << 30
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Index: IndexAll()})
	written := 0
	put := func(n int) {
		t.Helper()
		for range n {
			written++
			if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"i%05d","k":%d,"n":%d,"tags":["x","y%d"]}`, written, written%50, written%10, written%7), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	// check asks in several ways, all of which may use the index.
	check := func() {
		t.Helper()
		where := Eq("/n", 3)
		want := (written + 7) / 10
		n, err := c.Count(ctx, AllPartitions(), where)
		if err != nil || n != int64(want) {
			t.Errorf("count %d, want %d: %v", n, want, err)
		}
		rows, err := results(c.Query(ctx, AllPartitions(), Query{Where: where, OrderBy: []QueryOrder{{Path: "/id", Desc: true}}, Limit: 2, NoScan: true}))
		newest := (written+7)/10*10 - 7
		if err != nil || len(rows) != 2 || !strings.Contains(rows[0], fmt.Sprintf(`"i%05d"`, newest)) || !strings.Contains(rows[1], fmt.Sprintf(`"i%05d"`, newest-10)) {
			t.Errorf("after %d: %v, %v", written, rows, err)
		}
		groups, err := results(c.Query(ctx, AllPartitions(), Query{GroupBy: []string{"/n"}, Fields: []QueryField{{Path: "/n"}, {Aggregate: AggregateCount, As: "many"}}}))
		if err != nil || len(groups) != 10 || groups[3] != fmt.Sprintf(`{"n":3,"many":%d}`, want) {
			t.Errorf("%v, %v", groups, err)
		}
	}
	// held returns what the parts of all indexes hold, which must be what is counted.
	held := func() int64 {
		t.Helper()
		var sum int64
		for _, p := range db.partitions() {
			for _, part := range db.env.MemIndexes.Made(p.Version.Load().Active) {
				sum += part.Bytes
			}
		}
		var lent int64
		for _, p := range db.partitions() {
			lent += p.Version.Load().Active.Reserved()
		}
		if s := db.Stats(); s.IndexBytes != sum || s.BufferBytes != sum+lent || s.HeldBytes < s.BufferBytes {
			t.Errorf("parts hold %d, memtables %d; counted %d of %d, held %d", sum, lent, s.IndexBytes, s.BufferBytes, s.HeldBytes)
		}
		return sum
	}

	put(1000)
	check()
	first := held()
	if first == 0 {
		t.Error("no index was made")
	}
	for range 20 {
		put(60)
		check()
		held()
	}
	before := held()
	if before <= first {
		t.Errorf("%d bytes, of half of them %d", before, first)
	}

	// No memory is left: the memtables are read, and hold no more.
	db.env.MemIndexes.Beyond = db.env.Pool.Used() - db.env.Pool.Limit()
	put(100)
	check()
	if n := held(); n != before {
		t.Errorf("%d bytes, had %d and was to get no more", n, before)
	}
	if db.env.MemIndexes.Beyond = 0; held() != before {
		t.Error("memory that nobody asked for")
	}
	check()
	if held() <= before {
		t.Error("no index was made when there was memory again")
	}

	// Another policy: the index of the last one goes.
	if _, err := c.SetIndexPolicy(ctx, IndexPolicy{Include: []string{"/n/?", "/id/?"}}); err != nil {
		t.Fatal(err)
	}
	check()
	if n := held(); n == 0 || n >= before {
		t.Errorf("%d bytes with a narrow policy, %d with a wide one", n, before)
	}

	// A flush gives all back.
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	db.env.Reclaim.NowIfManual()
	if n := held(); n != 0 {
		t.Errorf("%d bytes after a flush", n)
	}
	check()

	// To make a part takes more than it may: that memtable is read.
	db.env.MemIndexes.Scratch = 1
	put(100)
	check()
	if n := held(); n != 0 {
		t.Errorf("%d bytes where none can be made", n)
	}
	db.env.MemIndexes.Scratch = math.MaxInt64
	check()
	if n := held(); n != 0 {
		t.Errorf("%d bytes: a memtable is to be tried once", n)
	}
}
