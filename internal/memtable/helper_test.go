package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/item"
)

// makeKey builds a key of one level with the given upper hash bits.
func makeKey(hash uint64, pk, id string) item.Key {
	epk := make([]byte, 16)
	binary.BigEndian.PutUint64(epk, hash)
	return item.Key{Hash: hash, EPK: epk, PK: []byte(pk), ID: []byte(id)}
}

// scatter turns a counter into a hash.
func scatter(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }

// makeKeys builds n keys, perPartition of them in each logical partition.
func makeKeys(n, perPartition int) []item.Key {
	keys := make([]item.Key, n)
	for i := range keys {
		p := i / perPartition
		keys[i] = makeKey(scatter(p), fmt.Sprintf("partition-%08d", p), fmt.Sprintf("document-%010d", i))
	}
	return keys
}

// dirtyPool returns a pool whose first chunks of each class were used before.
func dirtyPool(t testing.TB) *arena.Pool {
	t.Helper()
	pool := arena.NewPool(1 << 30)
	var chunks [][]byte
	for size := arena.MinChunkBytes; size <= arena.MaxChunkBytes; size *= 2 {
		chunk, err := pool.Get(size, false)
		if err != nil {
			t.Fatal(err)
		}
		copy(chunk, bytes.Repeat([]byte{0xdb}, size))
		chunks = append(chunks, chunk)
	}
	for _, chunk := range chunks {
		pool.Put(chunk)
	}
	t.Cleanup(pool.Close)
	return pool
}

func newTable(t testing.TB, expectItems int) *Table {
	table := New(dirtyPool(t), Range{}, expectItems, item.NewSeed())
	t.Cleanup(table.Release)
	return table
}

func mustPut(t testing.TB, table *Table, k *item.Key, v *item.Version) {
	t.Helper()
	if err := table.Put(k, v, false); err != nil {
		t.Fatalf("Put(%x): %v", k.ID, err)
	}
}
