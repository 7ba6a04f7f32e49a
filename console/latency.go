package console

import (
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/metrics"
)

// CallTimes says how long calls of a kind took, in nanoseconds. The quantiles are at most
// an eighth too long.
type CallTimes struct {
	Call    string  `json:"call"`
	Rate    float64 `json:"calls_per_s"`
	Mean    int64   `json:"mean_ns"`
	P50     int64   `json:"p50_ns"`
	P99     int64   `json:"p99_ns"`
	P999    int64   `json:"p999_ns"`
	Longest int64   `json:"max_ns"` // since the store was opened
}

// timesKept is how many samples back the times of calls are compared: at one sample a
// second, what the page shows is of the last ten seconds.
const timesKept = 10

// times are the histograms of a store at one time.
type times struct {
	at      time.Time
	of      []callHistogram
	refused float64 // calls, by physical partitions and by the limits of logical ones
}

type callHistogram struct {
	call string
	*metrics.Histogram
}

// timesOf asks the store for the times of its calls.
func timesOf(db *engine.DB, at time.Time) times {
	m := db.Metrics()
	t := times{at: at}
	for i := range m.Metrics {
		for k := range m.Metrics[i].Samples {
			s := &m.Metrics[i].Samples[k]
			switch m.Metrics[i].Name {
			case "cleave_throttled_total", "cleave_key_throttled_total":
				t.refused += s.Value
			case "cleave_call_duration_seconds":
				t.of = append(t.of, callHistogram{s.Labels[0], s.Histogram})
			case "cleave_log_sync_duration_seconds":
				t.of = append(t.of, callHistogram{"sync of the log", s.Histogram})
			}
		}
	}
	return t
}

// latencies adds what the sample says of calls since some samples before. The mutex of the
// watcher is held.
func (w *watcher) latencies(s *sample) {
	if s.closed {
		if w.last != nil {
			s.latency, s.window = w.last.latency, w.last.window
		}
		return
	}
	w.times = append(w.times[max(0, len(w.times)-timesKept):], s.times)
	first := &w.times[0]
	s.latency, s.window = []CallTimes{}, s.times.at.Sub(first.at)
	for _, now := range s.times.of {
		h := *now.Histogram
		for _, then := range first.of {
			if then.call == now.call {
				h = since(now.Histogram, then.Histogram)
			}
		}
		if h.Count == 0 || s.window <= 0 {
			continue
		}
		c := CallTimes{
			Call: now.call, Rate: finite(float64(h.Count) / s.window.Seconds()), Mean: int64(h.Mean()),
			P50: int64(h.Quantile(0.5)), P99: int64(h.Quantile(0.99)), P999: int64(h.Quantile(0.999)), Longest: int64(now.Max),
		}
		switch c.Call {
		case "read":
			s.point.ReadP99 = c.P99
		case "write":
			s.point.WriteP99 = c.P99
		}
		s.latency = append(s.latency, c)
	}
}

// since returns what a histogram has counted after an earlier state of itself. A state that
// is not earlier, of a store that was opened again, counts as nothing.
func since(now, then *metrics.Histogram) metrics.Histogram {
	if now.Count < then.Count {
		then = &metrics.Histogram{}
	}
	h := metrics.Histogram{Sum: max(0, now.Sum-then.Sum)}
	k := 0
	for _, b := range now.Buckets {
		for k < len(then.Buckets) && then.Buckets[k].UpTo < b.UpTo {
			k++
		}
		if k < len(then.Buckets) && then.Buckets[k].UpTo == b.UpTo {
			b.Count -= min(b.Count, then.Buckets[k].Count)
		}
		if b.Count > 0 {
			h.Buckets, h.Count = append(h.Buckets, b), h.Count+b.Count
			h.Max = min(b.UpTo, now.Max)
		}
	}
	return h
}
