package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// A soak is one store through many lives. What it takes between a tenth and a
// quarter of the time must be what it takes in the last sixth, by the medians of
// the samples.
const (
	soakLives   = 24 // restarts by the time they come; the last fifth is one life
	soakSamples = 120
)

// tolerance is how much more of a measure the end may have: times and beyond.
type tolerance struct {
	measure       string
	times, beyond float64
}

// tolerances are of measures that are told while writers pause, in the order of
// the table. Buffers fill and empty, files are compacted when they are many: what is
// added allows for the moment of a sample. The log must keep its bound whatever it
// was at first, and so must the disk of a settled store; the log may pass it by what
// comes before the store looks at it again.
// Latencies are mostly those of the disk, which others use too.
var tolerances = []tolerance{
	{"heap MiB", 1.1, 3},
	{"own memory MiB", 1.1, 8},
	{"goroutines", 1, 4},
	{"descriptors", 1.1, 8},
	{"maps", 1.1, 16},
	{"runs of one", 1.1, 2},
	{logMeasure, 0, 1},
	{"disk / live", 1.1, 0.3},
	{settledMeasure, 0, 1.1},
	{"p99 ms", 3, 50},
}

// sampled is a sample with its time since the begin of the soak.
type sampled struct {
	at time.Duration
	measures
}

// soaking is a soak under way.
type soaking struct {
	setting    setting
	out        io.Writer
	dir        string
	seed       uint64
	rate       float64
	length     time.Duration
	begin      time.Time
	rng        *rand.Rand
	models     models
	feed       *consumer
	samples    []sampled
	violations []string
	broken     bool // off, by an interrupt

	lives, killed, operations int
}

// soak runs one, and reports.
func soak(ctx context.Context, out io.Writer, st setting, length time.Duration, rate float64, seed uint64) (violations int, err error) {
	m, err := newPlain()
	if err != nil {
		return 0, err
	}
	s := &soaking{setting: st, out: out, dir: m.dir(), seed: seed, rate: rate, length: length, begin: time.Now(),
		rng: rand.New(rand.NewPCG(seed, 11)), models: newModels(st.shape, seed), feed: newConsumer(st.shape, seed)}
	defer func() {
		if len(s.violations) > 0 {
			fmt.Fprintln(out, "the store is kept:", s.dir)
		} else {
			m.remove()
		}
	}()
	if err := s.prepare(ctx); err != nil {
		return 0, err
	}
	s.begin = time.Now()
	fmt.Fprintf(out, "soak of %v, setting %s, %v operations a second, from %s on\n", length, st.name, rate, s.begin.Format(time.TimeOnly))
	for {
		ends := s.nextEnd()
		err := s.life(ctx, ends)
		if isViolation(err) {
			s.violations = append(s.violations, err.Error())
			break
		} else if err != nil {
			return 0, err
		}
		if ctx.Err() != nil || ends >= s.length {
			break
		}
	}
	s.broken = ctx.Err() != nil
	s.report()
	return len(s.violations), nil
}

// prepare fills the store: afterwards its live data stay about as large.
func (s *soaking) prepare(ctx context.Context) error {
	c, err := startChild(ctx, task{Setting: s.setting.name, Dir: s.dir, Seed: s.seed, Buffered: true, At: s.models.at(), Pause: time.Second}, s.feed, nil)
	if err != nil {
		return err
	}
	for full := false; !full; {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-c.done:
			full = true
		}
		c.mu.Lock()
		full = full || slices.Min(c.last) >= 4*s.setting.shape.IDs
		c.mu.Unlock()
	}
	_ = c.stdin.Close()
	if ended, wrong := c.wait(); ended != nil || wrong != nil {
		return errors.Join(ended, wrong)
	}
	return s.check(ctx, c.last, false)
}

// nextEnd says when the next life ends, since the begin.
func (s *soaking) nextEnd() time.Duration {
	now := time.Since(s.begin)
	end := now + s.length/soakLives/2 + time.Duration(s.rng.Int64N(int64(s.length/soakLives)))
	if end > s.length*4/5 {
		if now < s.length*4/5 {
			return s.length * 4 / 5
		}
		return s.length
	}
	return end
}

// life runs a child up to a time or the end of ctx, and looks at what it leaves.
func (s *soaking) life(ctx context.Context, ends time.Duration) error {
	// Not the context: at its end the child shall end in order.
	c, err := startChild(context.WithoutCancel(ctx), task{Setting: s.setting.name, Dir: s.dir, Seed: s.seed, Buffered: s.rng.IntN(3) > 0, At: s.models.at(),
		Rate: s.rate, Pause: max(s.length/2000, 100*time.Millisecond), Sample: max(s.length/soakSamples, time.Second)}, s.feed, s.sample)
	if err != nil {
		return err
	}
	kills, early := s.rng.IntN(2) == 0, false
	select {
	case <-ctx.Done():
		kills = false
		_ = c.stdin.Close()
	case <-time.After(time.Until(s.begin.Add(ends))):
		if kills {
			killGroup(c.cmd)
		} else {
			_ = c.stdin.Close()
		}
	case <-c.done:
		early = true
	}
	ended, wrong := c.wait()
	if wrong != nil {
		return wrong
	}
	if early || ended != nil && !kills {
		return violation("a child ended by itself, %v after the begin: %w", time.Since(s.begin).Round(time.Second), ended)
	}
	if err := c.judge(false); err != nil {
		return err
	}
	s.lives++
	if kills {
		s.killed++
	}
	return s.check(context.WithoutCancel(ctx), c.last, ends >= s.length || ctx.Err() != nil)
}

// sample takes what a child says of itself.
func (s *soaking) sample(text []byte) {
	m := make(measures)
	if json.Unmarshal(text, &m) != nil {
		return // cut off
	}
	s.samples = append(s.samples, sampled{time.Since(s.begin), m})
	fmt.Fprintf(s.out, "%8v %8d operations %s\n", time.Since(s.begin).Round(time.Second), s.operations, text)
}

// settledMeasure is taken twice: at the first restart after a tenth of the time,
// and at the end.
const settledMeasure = "settled disk / that of a new store"

// check compares all data with the model.
func (s *soaking) check(ctx context.Context, last []int, end bool) error {
	most := make([]int, len(last))
	for i := range last {
		s.operations += last[i] - s.models[i].n
		most[i] = last[i] + 1
	}
	return withStore(ctx, s.dir, s.setting.options, func(db *engine.DB) error {
		is, err := checkStore(ctx, db, s.models, last, most, s.feed, true)
		if err != nil {
			return err
		}
		s.models = is
		at := time.Since(s.begin)
		first := at > s.length/10 && !slices.ContainsFunc(s.samples, func(x sampled) bool { return x.measures[settledMeasure] > 0 })
		if first || end {
			begin := time.Now()
			ratio, err := settled(ctx, db, 2*s.setting.keeps())
			if err != nil {
				return err
			}
			s.begin = s.begin.Add(time.Since(begin)) // it does not count
			s.samples = append(s.samples, sampled{at, measures{settledMeasure: ratio}})
		}
		return clearBeside(s.dir)
	})
}

// median of a measure in a stretch of the soak.
func (s *soaking) median(measure string, from, to time.Duration) (median float64, n int) {
	var values []float64
	for _, x := range s.samples {
		if v, ok := x.measures[measure]; ok && x.at >= from && x.at <= to {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, 0
	}
	slices.Sort(values)
	return values[len(values)/2], len(values)
}

// report compares the begin with the end and prints the table.
func (s *soaking) report() {
	took := time.Since(s.begin)
	fmt.Fprintf(s.out, "\n%v, %d lives, %d of them killed, %d operations acknowledged\n\n", took.Round(time.Second), s.lives, s.killed, s.operations)
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "measure\tafter a tenth\tat the end\tallowed\t")
	for _, t := range tolerances {
		until := took / 4
		if t.measure == settledMeasure {
			until = took / 2
		}
		from, n := s.median(t.measure, took/10, until)
		to, m := s.median(t.measure, took*5/6, took+time.Hour)
		allowed, verdict := from*t.times+t.beyond, ""
		if n == 0 || m == 0 {
			if verdict = "not measured"; !s.broken {
				s.violations = append(s.violations, t.measure+": not measured")
			}
		} else if to > allowed || t.times == 0 && from > allowed {
			verdict = "more"
			s.violations = append(s.violations, fmt.Sprintf("%s: %.2f after a tenth of the time, %.2f at the end", t.measure, from, to))
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%s\n", t.measure, from, to, allowed, verdict)
	}
	_ = w.Flush()
	for _, v := range s.violations {
		fmt.Fprintln(s.out, "violation:", v)
	}
	fmt.Fprintf(s.out, "%d violations\n", len(s.violations))
}
