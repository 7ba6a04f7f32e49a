package hotcache

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

const bytesOfValue = 1000

// held returns the bytes of the values in the sets.
func (c *Cache[V]) held() (n int64) {
	for i := range c.sets {
		for way := range c.sets[i].entries {
			if e := c.sets[i].entries[way].Load(); e != nil {
				n += e.size
			}
		}
	}
	return n
}

// ask finds a value, which is its own number, or wants it. It reports whether it was held.
func ask(t *testing.T, c *Cache[uint64], file, n uint64, times uint32) bool {
	if v := c.Find(file, n); v != nil {
		if *v != file<<32|n {
			t.Errorf("number %d of file %d: %x", n, file, *v)
		}
		return true
	}
	if c.Want(file, n, times) {
		if v := c.Put(file, n, bytesOfValue, file<<32|n); *v != file<<32|n {
			t.Errorf("number %d of file %d: put %x", n, file, *v)
		}
	}
	return false
}

// What is asked for often stays while others come and go.
func TestStays(t *testing.T) {
	rng := randtest.New(t)
	for _, times := range []uint32{1, 2, 4, 16} {
		cache := New[uint64](64*bytesOfValue, bytesOfValue)
		often := 0
		const rounds = 4000
		for round := range rounds {
			for n := range uint64(10) {
				if ask(t, cache, 1, n, times) && round > rounds/2 {
					often++
				}
			}
			for range 10 {
				ask(t, cache, 1, 10+rng.Uint64N(100_000), times)
			}
		}
		// With 1 all others displace something.
		if want := 10 * rounds / 2 * 8 / 10; times > 1 && often < want {
			t.Errorf("wanted %d times: %d of %d were held", times, often, 10*rounds/2)
		}
		if n := cache.Bytes(); n != cache.held() || n > cache.size || cache.Room() != cache.size-n {
			t.Errorf("wanted %d times: %d bytes of %d, %d in sets, room for %d", times, n, cache.size, cache.held(), cache.Room())
		}
	}
}

// All that fits is held, and nearly as much as fits where there is more, whatever the order in which it is asked for.
func TestFills(t *testing.T) {
	rng := randtest.New(t)
	const values = 500
	for _, room := range []uint64{values / 2, values, 2 * values} {
		cache := New[uint64](int64(room)*bytesOfValue, bytesOfValue)
		for range 12 * values {
			ask(t, cache, 7, rng.Uint64N(values), 4)
		}
		found := uint64(0)
		for n := range uint64(values) {
			if cache.Find(7, n) != nil {
				found++
			}
		}
		if found < min(room, values)*85/100 {
			t.Errorf("room for %d: %d of %d values are held", room, found, values)
		}
	}
}

// A value that was asked for once too few is not held.
func TestWant(t *testing.T) {
	cache := New[uint64](64*bytesOfValue, bytesOfValue)
	for range 3 {
		if cache.Want(1, 5, 4) {
			t.Fatal("a value is wanted too early")
		}
	}
	if !cache.Want(1, 5, 4) {
		t.Fatal("a value is not wanted at the fourth time")
	}
	if cache.Find(1, 5) != nil {
		t.Error("a value that was not put is held")
	}
	cache.Put(1, 5, bytesOfValue, 9)
	if v := cache.Find(1, 5); v == nil || *v != 9 {
		t.Error("the value is not held")
	}
	if cache.Find(2, 5) != nil || cache.Find(1, 6) != nil {
		t.Error("the value of another file or number is held")
	}
}

// What is larger than the cache is not kept, and nothing stays of the attempt.
func TestTooLarge(t *testing.T) {
	cache := New[uint64](10*bytesOfValue, bytesOfValue)
	cache.Put(1, 1, 11*bytesOfValue, 3)
	if cache.Find(1, 1) != nil || cache.Bytes() != 0 {
		t.Errorf("a value larger than the cache is held: %d bytes", cache.Bytes())
	}
	for n := range uint64(100) {
		cache.Put(1, n, bytesOfValue, n)
	}
	if n := cache.Bytes(); n < 5*bytesOfValue || n > 10*bytesOfValue || n != cache.held() {
		t.Errorf("%d bytes of %d, %d in sets", n, cache.size, cache.held())
	}
}

func TestConcurrent(t *testing.T) {
	seed := randtest.New(t).Uint64()
	cache := New[uint64](16*bytesOfValue, bytesOfValue)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for range 5000 {
				n := rng.Uint64N(1 + rng.Uint64N(60))
				ask(t, cache, n%3, n, 2)
			}
		})
	}
	wg.Wait()
	if n := cache.Bytes(); n != cache.held() || n < 0 || n > cache.size {
		t.Errorf("%d bytes, %d in sets", n, cache.held())
	}
}

// TestDrop: nothing is held after Drop, all room is there again, and a cache goes on to work.
func TestDrop(t *testing.T) {
	cache := New[uint64](64*bytesOfValue, bytesOfValue)
	for range 2 {
		for n := range uint64(1000) {
			ask(t, cache, 1, n, 1)
		}
		if cache.held() == 0 || cache.Bytes() != cache.held() {
			t.Fatalf("%d bytes are held, Bytes %d", cache.held(), cache.Bytes())
		}
		cache.Drop()
		if cache.held() != 0 || cache.Bytes() != 0 || cache.Room() != 64*bytesOfValue {
			t.Fatalf("after Drop: %d bytes are held, Bytes %d, Room %d", cache.held(), cache.Bytes(), cache.Room())
		}
	}
}
