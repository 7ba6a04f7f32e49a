package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

const (
	defaultStallDocs = 1_000_000
	// stallWorkers call the store: as many as keep two processors busy.
	stallWorkers = 2
	// stallMost is how long a write may wait.
	stallMost = 20 * time.Millisecond
	// stallWindow is the time around a split whose median counts.
	stallWindow = 30 * time.Millisecond
)

// stallReport is what the workload stalls prints as JSON.
type stallReport struct {
	V         int             `json:"v"`
	Workload  string          `json:"workload"`
	Documents int             `json:"documents"`
	Phases    []stallPhase    `json:"phases"`
	Machine   measure.Machine `json:"machine"`
}

// stallPhase is what writes of a phase waited for. Parts are the longest ones of single
// writes above stallMost, and need not be of the same write.
type stallPhase struct {
	Name      string  `json:"name"`
	Writes    int64   `json:"writes"`
	Rate      float64 `json:"ops_per_s"`
	Slowest   float64 `json:"slowest_second"` // its operations by those of the mean second
	Long      int64   `json:"long_writes"`    // above 20 ms
	Longest   float64 `json:"longest_ms"`
	Memory    float64 `json:"memory_ms"` // waits for write buffers or compactions
	Lock      float64 `json:"lock_ms"`   // for the commit lock of the partition
	Log       float64 `json:"log_ms"`    // for the log
	Rest      float64 `json:"rest_ms"`   // for none of them: the processor, mostly
	Timer     float64 `json:"timer_ms"`  // how late a goroutine woke that only sleeps
	Device    float64 `json:"device_ms"` // the longest sync of the log
	Splits    int     `json:"splits,omitempty"`
	Median    float64 `json:"median_us,omitempty"`       // of operations far from splits
	NearSplit float64 `json:"split_median_us,omitempty"` // the worst of the windows around splits
	Seconds   []int64 `json:"seconds,omitempty"`         // operations of each whole second
}

// stallRun is what the phases of one store need.
type stallRun struct {
	db    *engine.DB
	c     *engine.Container
	docs  *workload.Generator
	n     int
	meter stallMeter
}

// stallMeter collects what operations take.
type stallMeter struct {
	ops, writes atomic.Int64
	mu          sync.Mutex
	phase       stallPhase
	seconds     []int64
	samples     []stallSample // of a phase with splits
	sampled     bool
}

type stallSample struct {
	at, took time.Duration // since the phase began
}

// slow is told of calls above stallMost.
func (m *stallMeter) slow(e engine.SlowCallEvent) {
	if e.Call != "write" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.phase
	p.Long++
	longer := func(most *float64, d time.Duration) { *most = max(*most, harness.Round(d.Seconds()*1000, 1)) }
	longer(&p.Longest, e.Duration)
	longer(&p.Memory, e.Stalled)
	longer(&p.Lock, e.Locked)
	longer(&p.Log, e.Log)
	longer(&p.Rest, e.Duration-e.Stalled-e.Locked-e.Log)
}

// runStalls measures how long writes are held up, in loads, at a part of the highest rate
// and around splits, on stores of its own.
func (r *runCommand) runStalls(ctx context.Context, env *harness.Environment) error {
	d, err := r.stallDuration()
	if err != nil {
		return err
	}
	n := defaultStallDocs
	if r.Docs > 0 {
		n = r.Docs.Int()
	}
	if n < 1000 {
		return harness.Usagef("--docs %d: %s wants at least 1,000", n, workload.Stalls)
	}
	docs, err := workload.NewGenerator(workload.Params{Shape: "food", Seed: 1, LogicalPartitions: 1000})
	if err != nil {
		return err
	}
	if err := r.JSON.Open(); err != nil {
		return err
	}
	defer r.JSON.Discard()
	rep := stallReport{V: 1, Workload: workload.Stalls, Documents: n}
	for _, store := range []struct {
		name  string
		def   engine.ContainerDef
		mixed bool
	}{
		{"load", engine.ContainerDef{}, true},
		{"load, none", engine.ContainerDef{Compression: engine.NoCompression}, false},
		{"load, indexed", engine.ContainerDef{Index: engine.IndexPolicy{Include: []string{"/*"}}}, false},
	} {
		store.def.PartitionKey, store.def.MinPartitions = []string{docs.KeyPath()}, max(1, r.Partitions.Int())
		err := harness.InTemporary(func(dir string) error {
			rep.Machine = measure.DescribeMachine(dir)
			s := &stallRun{docs: docs, n: n}
			phases, err := s.run(ctx, dir, store.name, store.def, store.mixed, d)
			rep.Phases = append(rep.Phases, phases...)
			return err
		})
		if err != nil {
			return err
		}
	}
	if !r.JSON.ReplacesText() {
		env.PrintMachine(env.Stdout, rep.Machine)
		rep.print(env.Stdout)
	}
	return r.JSON.Write(env, &rep)
}

// stallDuration is how long a phase lasts that is not a load.
func (r *runCommand) stallDuration() (time.Duration, error) {
	if r.Duration < 0 {
		return 0, harness.Usagef("--duration cannot be negative")
	}
	return cmp.Or(r.Duration, defaultDuration), nil
}

// run measures the phases of one store.
func (s *stallRun) run(ctx context.Context, dir, name string, def engine.ContainerDef, mixed bool, d time.Duration) (phases []stallPhase, err error) {
	s.db, err = engine.Open(ctx, dir, &engine.Options{
		Durability: engine.Buffered, SlowCall: stallMost, Events: &engine.EventListener{SlowCall: s.meter.slow},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := s.db.Close(); err == nil {
			err = closeErr
		}
	}()
	if s.c, err = s.db.CreateContainer(ctx, "docs", def); err != nil {
		return nil, err
	}
	var next atomic.Int64
	phase, err := s.measure(name, 0, 0, func(worker int, _ *rand.Rand) (bool, error) {
		i := next.Add(1) - 1
		if i >= int64(s.n) || ctx.Err() != nil {
			return false, ctx.Err()
		}
		return true, s.write(ctx, i, 0)
	})
	if phases = append(phases, phase); err != nil || !mixed {
		return phases, err
	}
	half := func(_ int, rng *rand.Rand) (bool, error) {
		i := rng.Int64N(int64(s.n))
		if rng.IntN(2) == 0 {
			return ctx.Err() == nil, s.write(ctx, i, rng.Uint64())
		}
		return ctx.Err() == nil, s.read(ctx, i)
	}
	best, err := s.measure("ycsb-a", 0, min(d, 4*time.Second), half)
	if phases = append(phases, best); err != nil {
		return phases, err
	}
	phase, err = s.measure("ycsb-a at 60 %", 0.6*best.Rate, d, half)
	if phases = append(phases, phase); err != nil {
		return phases, err
	}
	s.meter.sampled = true
	splits := make(chan error, 1)
	var windows []stallSample
	begun := time.Now()
	splitting, done := context.WithCancel(ctx)
	defer done()
	go func() { splits <- s.splitOften(ctx, splitting.Done(), begun, d, &windows) }()
	phase, err = s.measure("60 %, splits", 0.6*best.Rate, d, half)
	done()
	if splitErr := <-splits; err == nil {
		err = splitErr
	}
	phase.Splits = len(windows)
	phase.Median, phase.NearSplit = s.meter.medians(windows)
	return append(phases, phase), err
}

// splitOften splits partitions, at least one, until done is closed, and notes when.
func (s *stallRun) splitOften(ctx context.Context, done <-chan struct{}, begun time.Time, d time.Duration, windows *[]stallSample) error {
	for i := range 4 {
		select {
		case <-done:
			if i > 0 {
				return nil
			}
		case <-time.After(d / 6):
		}
		parts := s.c.Partitions()
		largest := slices.MaxFunc(parts, func(a, b engine.PartitionStats) int { return int(a.Items - b.Items) })
		job, err := s.c.Split(ctx, largest.ID, nil)
		if err == nil {
			err = job.Wait(ctx)
		}
		if err != nil {
			return err
		}
		// Writes are held up until the children take over. A split ends later, when they have
		// inherited nothing any more.
		*windows = append(*windows, stallSample{at: job.Progress().Swapped.Sub(begun) - stallWindow})
	}
	return nil
}

func (s *stallRun) write(ctx context.Context, i int64, version uint64) error {
	_, err := s.c.Upsert(ctx, s.docs.Append(nil, i, version), nil)
	s.meter.writes.Add(1)
	return err
}

func (s *stallRun) read(ctx context.Context, i int64) error {
	key := s.docs.AppendKey(nil, s.docs.Partition(i))
	_, err := s.c.Read(ctx, engine.StringKey(string(key)), string(s.docs.AppendID(nil, i)))
	return err
}

// measure has workers call do until it returns false or d is over, at a rate if that is not 0.
func (s *stallRun) measure(name string, rate float64, d time.Duration, do func(worker int, rng *rand.Rand) (bool, error)) (stallPhase, error) {
	m := &s.meter
	m.mu.Lock()
	m.phase, m.seconds, m.samples = stallPhase{Name: name}, nil, nil
	m.mu.Unlock()
	m.ops.Store(0)
	m.writes.Store(0)
	begun, end := time.Now(), make(chan struct{})
	var beside sync.WaitGroup
	var late time.Duration
	beside.Go(func() { late = m.watch(begun, end) })
	errs := make(chan error, stallWorkers)
	for worker := range stallWorkers {
		go func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			var samples []stallSample
			defer func() {
				m.mu.Lock()
				m.samples = append(m.samples, samples...)
				m.mu.Unlock()
			}()
			for k := 0; d == 0 || time.Since(begun) < d; k++ {
				// Eight operations are due together: a sleep for each would be the load.
				if rate > 0 && k%8 == 0 {
					due := begun.Add(time.Duration(float64(k*stallWorkers) / rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				start := time.Now()
				more, err := do(worker, rng)
				if err != nil || !more {
					errs <- err
					return
				}
				if m.ops.Add(1); m.sampled {
					samples = append(samples, stallSample{start.Sub(begun), time.Since(start)})
				}
			}
			errs <- nil
		}()
	}
	var err error
	for range stallWorkers {
		if e := <-errs; err == nil {
			err = e
		}
	}
	took := time.Since(begun)
	close(end)
	beside.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.phase
	p.Writes, p.Rate = m.writes.Load(), harness.Round(float64(m.ops.Load())/took.Seconds(), 1)
	if len(m.seconds) > 0 {
		p.Slowest = harness.Round(float64(slices.Min(m.seconds))/p.Rate, 2)
	}
	p.Seconds = m.seconds
	p.Timer = harness.Round(late.Seconds()*1000, 1)
	metrics := s.db.Metrics()
	if h := metrics.Histogram("cleave_log_sync_duration_seconds"); h != nil {
		p.Device = harness.Round(h.Max.Seconds()*1000, 1)
	}
	return *p, err
}

// watch counts the operations of whole seconds until end, and returns how late a sleep of
// a millisecond ended at most.
func (m *stallMeter) watch(begun time.Time, end <-chan struct{}) (late time.Duration) {
	last, whole := int64(0), time.Second
	for {
		select {
		case <-end:
			return late
		default:
		}
		slept := time.Now()
		time.Sleep(time.Millisecond)
		late = max(late, time.Since(slept)-time.Millisecond)
		if time.Since(begun) >= whole {
			now := m.ops.Load()
			m.seconds = append(m.seconds, now-last)
			last, whole = now, whole+time.Second
		}
	}
}

// medians returns the median of operations outside of the windows, and the highest median
// in one, in microseconds.
func (m *stallMeter) medians(windows []stallSample) (far, near float64) {
	in := make([][]time.Duration, len(windows)+1) // the last one: in no window
	for _, s := range m.samples {
		at := slices.IndexFunc(windows, func(w stallSample) bool { return s.at >= w.at && s.at < w.at+2*stallWindow })
		if at < 0 {
			at = len(windows)
		}
		in[at] = append(in[at], s.took)
	}
	median := func(list []time.Duration) float64 {
		if len(list) == 0 {
			return 0
		}
		slices.Sort(list)
		return harness.Round(float64(list[len(list)/2].Nanoseconds())/1000, 1)
	}
	for _, list := range in[:len(windows)] {
		near = max(near, median(list))
	}
	return median(in[len(windows)]), near
}

// print writes the report as a table.
func (r *stallReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s; writes above 20 ms, and the longest of their waits in ms\n\n", harness.Plural(r.Documents, "document"))
	t := cli.NewTable("<phase", "ops/s", "slowest second", "writes", "above 20 ms", "longest", "memory", "lock", "log", "rest", "timer", "log sync", "p50 µs", "at splits")
	for _, p := range r.Phases {
		median, near := "", ""
		if p.Splits > 0 {
			median, near = humanize.Number(p.Median), humanize.Number(p.NearSplit)
		}
		t.Row(p.Name, humanize.Count(int64(p.Rate)), fmt.Sprintf("%.2f", p.Slowest), humanize.Count(p.Writes), humanize.Count(p.Long), humanize.Number(p.Longest),
			humanize.Number(p.Memory), humanize.Number(p.Lock), humanize.Number(p.Log), humanize.Number(p.Rest), humanize.Number(p.Timer), humanize.Number(p.Device), median, near)
	}
	t.Print(w, "")
	fmt.Fprint(w, "\nlog sync: the longest since the store was opened; timer: how late a goroutine woke that only sleeps: with others on the processors, no wait is shorter\n")
}
