package rowcache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
)

func newKey(i int) *item.Key { return &item.Key{PK: []byte("p"), ID: fmt.Append(nil, "item ", i)} }

// held returns the bytes of the items in the slots.
func (c *Cache) held() (n int64) {
	for i := range c.slots {
		if it := c.slots[i].item.Load(); it != nil {
			n += it.size()
		}
	}
	return n
}

// What is read often stays while others come and go.
func TestStays(t *testing.T) {
	rng := randtest.New(t)
	cache := New(64 << 10)
	version := func(i int) *item.Version {
		return &item.Version{Seq: uint64(i + 1), Body: bytes.Repeat([]byte{byte(i)}, 500)}
	}
	read := func(i int) bool {
		k := newKey(i)
		if v := cache.Find(1, k, k.ItemHash()); v != nil {
			if v.Seq != uint64(i+1) || !bytes.Equal(v.Body, version(i).Body) {
				t.Fatalf("item %d: sequence %d", i, v.Seq)
			}
			return true
		}
		cache.Note(1, k, k.ItemHash(), version(i))
		return false
	}
	often := 0
	const rounds = 4000
	for round := range rounds {
		for i := range 10 {
			if read(i) && round > rounds/2 {
				often++
			}
		}
		for range 10 {
			read(10 + rng.IntN(100_000))
		}
	}
	// Two of ten may share a slot.
	if want := 10 * rounds / 2 * 7 / 10; often < want {
		t.Errorf("%d of %d reads of ten items were held", often, 10*rounds/2)
	}
}

func TestConcurrent(t *testing.T) {
	seed := randtest.New(t).Uint64()
	cache := New(16 << 10)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for range 5000 {
				n := rng.IntN(1 + rng.IntN(60))
				k := newKey(n)
				file := uint64(n % 3)
				if v := cache.Find(file, k, k.ItemHash()); v == nil {
					cache.Note(file, k, k.ItemHash(), &item.Version{Seq: uint64(n), Body: bytes.Repeat([]byte{byte(n)}, n*10)})
				} else if v.Seq != uint64(n) || len(v.Body) != n*10 {
					t.Errorf("item %d: sequence %d, %d bytes", n, v.Seq, len(v.Body))
				}
			}
		})
	}
	wg.Wait()
	if n := cache.Bytes(); n != cache.held() || n < 0 || n > cache.size {
		t.Errorf("%d bytes, %d in slots", n, cache.held())
	}
}
