package keylimits

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func pk(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

// TestRate: a key that asks without a pause gets its rate and no more, and another key is
// not held up.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		now := func() time.Duration { return time.Since(begun) }
		var l Limits
		l.Set(Rules{Default: Limit{Throughput: 100, Bytes: 1}, Keys: map[string]Limit{"fast": {Throughput: 1000, Bytes: 1}}}, now())
		const seconds = 20
		consume := func(key string) (units float64) {
			for now() < seconds*time.Second {
				if wait := l.Admit([]byte(key), now()); wait > 0 {
					time.Sleep(wait)
					continue
				}
				l.Charge([]byte(key), 5, now())
				units += 5
			}
			return units
		}
		var all sync.WaitGroup
		for key, rate := range map[string]float64{"slow": 100, "fast": 1000} {
			all.Go(func() {
				// The bucket is full at first, and the last operation may overdraw it.
				if got, most := consume(key), rate*(seconds+1)+5; got > most || got < most-15 {
					t.Errorf("%s consumed %v RU in %d s, not %v", key, got, seconds, most)
				}
			})
		}
		all.Wait()
		for key, rate := range map[string]float64{"slow": 100, "fast": 1000} {
			c, ok := l.Consumed([]byte(key), now())
			if !ok || c.Units < rate*seconds || c.Refused == 0 || c.Since != 0 {
				t.Errorf("%s: %+v, %v", key, c, ok)
			}
		}
		if wait := l.Admit([]byte("idle"), now()); wait != 0 {
			t.Errorf("an idle key waits for %v", wait)
		}
	})
}

// TestDebt: a debt stays a number of RU when the rate changes, and the wait is exact.
func TestDebt(t *testing.T) {
	var l Limits
	now := 10 * time.Second
	set := func(rate float64) { l.Set(Rules{Default: Limit{Throughput: rate, Bytes: 1}}, now) }
	set(10)
	l.Charge(pk(1), 30, now) // 10 of them from the bucket
	if wait := l.Admit(pk(1), now); wait != 2*time.Second+1 {
		t.Errorf("20 RU at 10 RU/s: %v", wait)
	}
	set(100)
	if wait := l.Admit(pk(1), now); wait != 200*time.Millisecond+1 {
		t.Errorf("20 RU at 100 RU/s: %v", wait)
	}
	if wait := l.Wait(pk(1), now); wait != 200*time.Millisecond+1 { // it is not refused
		t.Errorf("waits for %v", wait)
	}
	if wait := l.Admit(pk(1), now+200*time.Millisecond+1); wait != 0 {
		t.Errorf("paid back, and still %v", wait)
	}
	if c, ok := l.Consumed(pk(1), now); !ok || c.Units != 30 || c.Refused != 2 || c.Wait != 200*time.Millisecond+1 {
		t.Errorf("%+v, %v", c, ok)
	}
	if n := l.Refused(); n != 2 {
		t.Errorf("%d operations of all keys were not admitted, want 2", n)
	}
	set(0)
	if l.Metered() || l.Admit(pk(1), now) != 0 {
		t.Error("unlimited, and still metered")
	}
	if _, ok := l.Consumed(pk(1), now); ok {
		t.Error("unlimited, and counted")
	}
	set(10)
	if wait := l.Admit(pk(1), now); wait != 0 {
		t.Errorf("limited again: %v", wait)
	}
	if n := l.Refused(); n != 2 {
		t.Errorf("%d after the limits were lifted, want 2 as before", n)
	}
}

// TestUnlimitedKey: a key without a rate among those that have one is not counted; when
// it gets one, the count says since when.
func TestUnlimitedKey(t *testing.T) {
	var l Limits
	rules := Rules{Default: Limit{Throughput: 10, Bytes: 5}, Keys: map[string]Limit{"free": {Bytes: 9}}}
	l.Set(rules, 0)
	delete(rules.Keys, "free") // the caller's map is not the one that was set
	free := []byte("free")
	l.Charge(free, 1e6, time.Second)
	if l.Admit(free, time.Second) != 0 || l.Bytes(free) != 9 || l.Bytes(pk(1)) != 5 || l.LeastBytes() != 5 {
		t.Error("free is limited")
	}
	l.Set(Rules{Default: Limit{Throughput: 10, Bytes: 5}}, 2*time.Second)
	l.Charge(free, 3, 3*time.Second)
	if c, ok := l.Consumed(free, 3*time.Second); !ok || c.Units != 3 || c.Since != 2*time.Second {
		t.Errorf("%+v, %v", c, ok)
	}
}

// TestBounded: the buckets are bounded, those of limits of their own and those in debt
// stay, and every count is all that was consumed since the time that it gives.
func TestBounded(t *testing.T) {
	var l Limits
	const special = 50
	rules := Rules{Default: Limit{Throughput: 100, Bytes: 1}, Keys: map[string]Limit{}}
	for i := range special {
		rules.Keys[string(pk(i))] = Limit{Throughput: 200, Bytes: 1}
	}
	l.Set(rules, 0)
	type charge struct {
		at time.Duration
		ru float64
	}
	const keys = 5 * shards * perShard / 4
	charges := make([][]charge, keys)
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Duration(0)
	for i := range special + 3*keys/2 {
		key := i % keys
		if i%3 == 0 && i >= special {
			key = rng.IntN(keys)
		}
		now += 50 * time.Microsecond
		l.Charge(pk(key), 1, now)
		charges[key] = append(charges[key], charge{now, 1})
	}
	m := l.rules.Load().meters
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		n += len(s.buckets)
		bytes := 0
		for k := range s.buckets {
			bytes += len(k)
		}
		if bytes != s.bytes || len(s.buckets) > perShard+special {
			t.Fatalf("shard %d: %d buckets with %d bytes of keys, counted %d", i, len(s.buckets), bytes, s.bytes)
		}
	}
	if n > shards*perShard+special || n < shards*perShard/2 {
		t.Errorf("%d buckets", n)
	}
	for key := range keys {
		c, ok := l.Consumed(pk(key), now)
		want := 0.0
		for _, charge := range charges[key] {
			if charge.at >= c.Since {
				want += charge.ru
			}
		}
		if !ok || c.Units != want || key < special && c.Since != 0 {
			t.Fatalf("key %d: %+v, want %v RU", key, c, want)
		}
	}
}

// TestDebtorsStay: keys that were idle go before those that owe.
func TestDebtorsStay(t *testing.T) {
	var l Limits
	l.Set(Rules{Default: Limit{Throughput: 1, Bytes: 1}}, 0)
	const debtors = 1000
	for i := range debtors {
		l.Charge(pk(-1-i), 1e6, time.Second)
	}
	for i := range 5 * shards * perShard / 4 {
		l.Charge(pk(i), 0.5, time.Duration(i)*time.Millisecond)
	}
	now := 3 * shards * perShard * time.Millisecond
	for i := range debtors {
		if l.Admit(pk(-1-i), now) == 0 {
			t.Fatalf("debtor %d was forgotten", i)
		}
	}
}

// TestLongKeys: long keys take as much memory as short ones.
func TestLongKeys(t *testing.T) {
	var l Limits
	l.Set(Rules{Default: Limit{Throughput: 1, Bytes: 1}}, 0)
	for i := range 2 * shards * shardBytes / 4096 {
		l.Charge(append(make([]byte, 4096), pk(i)...), 1, time.Second)
	}
	for i := range l.rules.Load().meters.shards {
		if n := l.rules.Load().meters.shards[i].bytes; n > shardBytes {
			t.Fatalf("%d bytes of keys", n)
		}
	}
}

// TestNothingAllocated: a key with a bucket costs no allocation, nor does a container
// without limits.
func TestNothingAllocated(t *testing.T) {
	var none, some Limits
	none.Set(Rules{Default: Limit{Bytes: 1}}, 0)
	some.Set(Rules{Default: Limit{Throughput: 1e6, Bytes: 1}}, 0)
	key := pk(1)
	for _, l := range []*Limits{new(Limits), &none, &some} {
		n := testing.AllocsPerRun(1000, func() {
			l.Admit(key, time.Second)
			l.Charge(key, 1, time.Second)
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestConcurrent changes rates while keys are charged; it is for the race detector.
func TestConcurrent(t *testing.T) {
	var l Limits
	l.Set(Rules{Default: Limit{Throughput: 1, Bytes: 1}}, 0)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 2000 {
				l.Admit(pk(i%100), time.Duration(i))
				l.Charge(pk(i%100), 1, time.Duration(i))
				if i%500 == 0 {
					l.Set(Rules{Default: Limit{Throughput: float64(1 + (g+i)%3), Bytes: 1}, Keys: map[string]Limit{string(pk(g)): {Throughput: 5}}}, time.Duration(i))
				}
				l.Consumed(pk(i%100), time.Duration(i))
			}
		})
	}
	all.Wait()
	total := 0.0
	for i := range 100 {
		c, _ := l.Consumed(pk(i), time.Hour)
		total += c.Units
	}
	if total != 4*2000 {
		t.Errorf("%v RU counted, 8000 charged", total)
	}
}
