package arena

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

func TestChunkSizes(t *testing.T) {
	f := func(size, want int) {
		t.Helper()
		if got := chunkSize(size); got != want {
			t.Errorf("chunkSize(%d) = %d, want %d", size, got, want)
		}
	}
	f(0, MinChunkBytes)
	f(1, MinChunkBytes)
	f(MinChunkBytes, MinChunkBytes)
	f(MinChunkBytes+1, 2*MinChunkBytes)
	f(MaxChunkBytes-1, MaxChunkBytes)
	f(MaxChunkBytes, MaxChunkBytes)
	f(MaxChunkBytes+1, 2*MaxChunkBytes)
}

func mustGet(t *testing.T, p *Pool, size int, force bool) []byte {
	t.Helper()
	chunk, err := p.Get(size, force)
	if err != nil {
		t.Fatal(err)
	}
	return chunk
}

func TestLimit(t *testing.T) {
	p := newPool(2*MinChunkBytes, touchEvery)
	a := mustGet(t, p, 1, false)
	b := mustGet(t, p, MinChunkBytes, false)
	if _, err := p.Get(1, false); !errors.Is(err, ErrFull) {
		t.Fatalf("past the limit: %v", err)
	}
	forced := mustGet(t, p, 1, true)
	if got := p.Used(); got != 3*MinChunkBytes {
		t.Errorf("Used = %d with three chunks lent", got)
	}
	p.Put(forced)
	if got := p.Held(); got != 2*MinChunkBytes {
		t.Errorf("Held = %d: the overdraft was kept", got)
	}
	p.Put(a)
	p.Put(b)
	if p.Used() != 0 {
		t.Errorf("Used = %d with nothing lent", p.Used())
	}
	p.Close()
	if p.Held() != 0 {
		t.Errorf("Held = %d after Close", p.Held())
	}
}

func TestReuse(t *testing.T) {
	p := NewPool(4 * MaxChunkBytes)
	defer p.Close()
	a := mustGet(t, p, MaxChunkBytes, false)
	a[0], a[len(a)-1] = 1, 2
	p.Put(a)
	b := mustGet(t, p, MaxChunkBytes, false)
	if &a[0] != &b[0] {
		t.Error("a free chunk of the class was not reused")
	}
	p.Put(b)
}

// TestLargePages: where a page has 64 KiB no chunk takes less of the system, and
// the limit sees that.
func TestLargePages(t *testing.T) {
	const page = 64 << 10
	p := newPool(4*page, page)
	defer p.Close()
	var lent [][]byte
	for range 4 {
		chunk := mustGet(t, p, MinChunkBytes, false)
		if len(chunk) != page {
			t.Fatalf("a chunk of %d bytes, want %d", len(chunk), page)
		}
		lent = append(lent, chunk)
	}
	if _, err := p.Get(1, false); !errors.Is(err, ErrFull) || p.Used() != 4*page || p.Held() != 4*page {
		t.Errorf("past the limit: %v, %d used, %d held", err, p.Used(), p.Held())
	}
	for _, chunk := range lent {
		p.Put(chunk)
	}
	again := mustGet(t, p, 1, false)
	if &again[0] != &lent[3][0] {
		t.Error("a free chunk was not reused")
	}
	p.Put(again)
}

// A free chunk of another class must not keep the pool from lending.
func TestFreeChunksMakeRoom(t *testing.T) {
	p := newPool(MaxChunkBytes, touchEvery)
	defer p.Close()
	var small [][]byte
	for range MaxChunkBytes / MinChunkBytes {
		small = append(small, mustGet(t, p, MinChunkBytes, false))
	}
	for _, chunk := range small {
		p.Put(chunk)
	}
	big := mustGet(t, p, MaxChunkBytes, false)
	if p.Held() > p.Limit() {
		t.Errorf("Held = %d, limit %d", p.Held(), p.Limit())
	}
	p.Put(big)
}

func TestTrim(t *testing.T) {
	p := NewPool(8 * MaxChunkBytes)
	defer p.Close()
	lent := mustGet(t, p, MaxChunkBytes, false)
	p.Put(mustGet(t, p, MinChunkBytes, false))
	p.Trim(0)
	if got := p.Held(); got != MaxChunkBytes {
		t.Errorf("Held = %d, want only what is lent", got)
	}
	p.Put(lent)
}

func TestConcurrent(t *testing.T) {
	const limit = 16 * MaxChunkBytes
	p := NewPool(limit)
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			var mine [][]byte
			for range 500 {
				if len(mine) > 0 && rng.IntN(2) == 0 {
					last := mine[len(mine)-1]
					mine = mine[:len(mine)-1]
					if last[0] != byte(seed) || last[len(last)-1] != byte(seed) {
						t.Error("a lent chunk was written by another owner")
					}
					p.Put(last)
					continue
				}
				chunk, err := p.Get(1+rng.IntN(MaxChunkBytes), false)
				if errors.Is(err, ErrFull) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				chunk[0], chunk[len(chunk)-1] = byte(seed), byte(seed)
				mine = append(mine, chunk)
			}
			for _, chunk := range mine {
				p.Put(chunk)
			}
		})
	}
	wg.Wait()
	if p.Used() != 0 || p.Held() > limit {
		t.Errorf("Used = %d, Held = %d", p.Used(), p.Held())
	}
	p.Close()
}

func BenchmarkGetPut(b *testing.B) {
	p := NewPool(4 * MaxChunkBytes)
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		chunk, err := p.Get(MaxChunkBytes, false)
		if err != nil {
			b.Fatal(err)
		}
		p.Put(chunk)
	}
}

// made waits for the goroutine that makes chunks ahead, and returns how many are
// ready.
func made(p *Pool) int {
	for {
		p.mu.Lock()
		making, ready := p.mu.making, len(p.mu.ready)
		p.mu.Unlock()
		if !making {
			return ready
		}
		runtime.Gosched()
	}
}

// Chunks are made ahead once one was asked for, within the limit, and given back
// at the end.
func TestMakeAhead(t *testing.T) {
	p := NewPool(5 * MaxChunkBytes)
	p.MakeAhead(3)
	small := mustGet(t, p, MinChunkBytes, false)
	if n := made(p); n != 0 {
		t.Errorf("%d made before one was asked for", n)
	}
	p.Put(small)
	var lent [][]byte
	for i := range 5 {
		lent = append(lent, mustGet(t, p, MaxChunkBytes, false))
		want := min(3, 4-i)
		if n := made(p); n > want || i == 0 && n != want {
			t.Errorf("%d ready with %d lent, want %d", n, i+1, want)
		}
		if p.Held() > p.Limit() || p.Used() != int64(i+1)*MaxChunkBytes {
			t.Errorf("%d lent: Held = %d, Used = %d, limit %d", i+1, p.Held(), p.Used(), p.Limit())
		}
	}
	if _, err := p.Get(MaxChunkBytes, false); !errors.Is(err, ErrFull) {
		t.Errorf("past the limit: %v", err)
	}
	for _, chunk := range lent[1:] {
		p.Put(chunk)
	}
	p.Trim(2 * MaxChunkBytes)
	p.Put(mustGet(t, p, MaxChunkBytes, false))
	made(p)
	p.Close()
	p.Put(lent[0])
	if p.Held() != 0 {
		t.Errorf("Held = %d after Close", p.Held())
	}
}

// Close may come while chunks are made.
func TestCloseWhileMaking(t *testing.T) {
	for range 200 {
		p := NewPool(8 * MaxChunkBytes)
		p.MakeAhead(4)
		chunk := mustGet(t, p, MaxChunkBytes, false)
		p.Close()
		p.Put(chunk)
		made(p)
		if p.Held() != 0 {
			t.Fatalf("Held = %d after Close", p.Held())
		}
	}
}
