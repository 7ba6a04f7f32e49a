package console

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/metrics"
)

// TestSince takes an earlier state of a histogram from a later one.
func TestSince(t *testing.T) {
	then := &metrics.Histogram{Count: 5, Sum: 50, Max: 20, Buckets: []metrics.Bucket{{UpTo: 8, Count: 4}, {UpTo: 20, Count: 1}}}
	now := &metrics.Histogram{Count: 12, Sum: 150, Max: 31, Buckets: []metrics.Bucket{{UpTo: 8, Count: 4}, {UpTo: 10, Count: 3}, {UpTo: 20, Count: 2}, {UpTo: 32, Count: 3}}}
	h := since(now, then)
	if h.Count != 7 || h.Sum != 100 || h.Max != 31 || len(h.Buckets) != 3 || h.Buckets[1] != (metrics.Bucket{UpTo: 20, Count: 1}) || h.Quantile(0.5) != 20 {
		t.Errorf("since: %+v", h)
	}
	if h := since(then, then); h.Count != 0 || h.Quantile(0.99) != 0 {
		t.Errorf("nothing since: %+v", h)
	}
	if h := since(then, now); h.Count != then.Count || h.Sum != then.Sum { // opened again
		t.Errorf("opened again: %+v", h)
	}
}

// TestLatency: the page has the calls of the last ten samples, by kind.
func TestLatency(t *testing.T) {
	db, c := openTest(t, &engine.Options{SlowCall: time.Hour}, 0) // times all calls
	write := func(n int) {
		for range n {
			put(t, c, `{"id":"a","k":"k1"}`)
		}
	}
	write(70)
	synctest.Test(t, func(t *testing.T) {
		h := Handler(db, nil)
		if v := get[storeView](t, h, "/api/store"); len(v.Latency) != 0 || v.LatencySeconds != 0 {
			t.Errorf("before a second sample: %+v", v.Latency)
		}
		for second := range 2 * timesKept {
			if second == 0 {
				write(30)
			}
			time.Sleep(sampleEvery)
			v := get[storeView](t, h, "/api/store")
			var writes float64
			for _, l := range v.Latency {
				if l.Call == "write" {
					writes = l.Rate * v.LatencySeconds
					if l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.P999 || l.P999 > l.Longest || v.Series[len(v.Series)-1].WriteP99 != l.P99 {
						t.Errorf("second %d: %+v", second, l)
					}
				}
			}
			want := 30.0
			if second >= timesKept {
				want = 0
			}
			if writes < want-0.01 || writes > want+0.01 || v.LatencySeconds != float64(min(second+1, timesKept)) {
				t.Errorf("second %d: %v writes in %v s, want %v", second, writes, v.LatencySeconds, want)
			}
		}
	})
}

// TestRefusedKeys: the page names the logical partitions that are refused, the most often
// refused one first.
func TestRefusedKeys(t *testing.T) {
	db, _ := openTest(t, nil, 10)
	if v := get[keysView](t, Handler(db, nil), "/api/keys?name=c"); v.Limited || len(v.Refused) != 0 {
		t.Errorf("without limits: %+v", v)
	}
	c, err := db.CreateContainer(t.Context(), "limited", engine.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(db, nil).(*handler)
	get[storeView](t, h, "/api/store") // the first sample
	refused, all := make(map[string]int64), 0.0
	for i := range 20 {
		key := engine.StringKey(fmt.Sprintf("k%02d", i))
		if err := c.SetKeyLimits(t.Context(), key, engine.KeyLimits{Throughput: 1}); err != nil {
			t.Fatal(err)
		}
		for range i {
			_, err := c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"a","k":"k%02d"}`, i), nil)
			if errors.Is(err, engine.ErrThrottled) {
				refused[key.String()]++
				all++
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	h.watcher.due = time.Time{}
	get[storeView](t, h, "/api/store") // the second one
	s := h.watcher.last
	if n := s.point.Throttled * s.at.Sub(s.before.at).Seconds(); n < all-0.01 || n > all+0.01 {
		t.Errorf("%v calls refused, want %v", n, all)
	}
	v := get[keysView](t, Handler(db, nil), "/api/keys?name=limited")
	if !v.Limited || len(v.Refused) != refusedRows {
		t.Fatalf("%d of %d keys: %+v", len(v.Refused), len(refused), v)
	}
	for i, r := range v.Refused {
		if r.Refused != refused[r.Key] || r.Limit != 1 || r.Units <= 0 || r.Since == 0 || i > 0 && r.Refused > v.Refused[i-1].Refused {
			t.Errorf("row %d: %+v, refused %d times", i, r, refused[r.Key])
		}
	}
}
