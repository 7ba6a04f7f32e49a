package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/measure"
)

// feedCommand measures how well a follower of the change feed keeps up with
// buffered writes.
type feedCommand struct {
	Rate   count         `default:"100k" placeholder:"N" help:"Buffered puts a second; default ${default}."`
	For    time.Duration `default:"10s" placeholder:"TIME" help:"How long to put; default ${default}."`
	Bytes  byteCount     `default:"200" placeholder:"SIZE" help:"Bytes of a document, at least 64; default ${default}."`
	Alone  bool          `help:"Put without a follower, to see what it costs the puts."`
	Splits int           `default:"1" placeholder:"N" help:"Splits meanwhile; default ${default}."`
	JSON   jsonOutput    `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output, in place of the table."`
}

// Help returns what follows the short help.
func (*feedCommand) Help() string {
	return `
One goroutine puts documents into a temporary store at a steady rate, or as fast as it goes if that is less; another follows the change feed, which shows what is durable. The figures: puts and changes a second, how long after its put a change was shown, and changes that came twice or never. Exit status 1: there were some.

Examples:

    pbench feed
    pbench feed --rate 20k --for 1m --splits 3
    pbench feed --alone`
}

// feedReport is what pbench feed found.
type feedReport struct {
	V          int             `json:"v"`
	Workload   string          `json:"workload"` // "feed-follow"
	Machine    measure.Machine `json:"machine"`
	OfferedPS  float64         `json:"offered_per_s"`
	PutsPS     float64         `json:"puts_per_s"`
	Puts       int64           `json:"puts"`
	Changes    int64           `json:"changes"`
	Duplicates int64           `json:"duplicates"`
	Missing    int64           `json:"missing"`
	LagP50     float64         `json:"lag_p50_ms"`
	LagP99     float64         `json:"lag_p99_ms"`
	LagMax     float64         `json:"lag_max_ms"`
	Splits     int             `json:"splits"`
}

// Run measures.
func (f *feedCommand) Run(ctx context.Context, env *environment) error {
	if f.Rate < 1 || f.For < time.Millisecond || f.Bytes < 64 || f.Bytes > 1<<20 {
		return usagef("--rate at least 1, --for at least 1ms, --bytes 64 to 1MiB")
	}
	if err := f.JSON.open(); err != nil {
		return err
	}
	defer f.JSON.discard()
	var r *feedReport
	if err := inTemporary(func(dir string) (err error) {
		r, err = f.measure(ctx, dir)
		return err
	}); err != nil {
		return err
	}
	if !f.JSON.replacesText() {
		printMachine(env.stdout, env.args, r.Machine)
		r.print(env.stdout)
	}
	if err := f.JSON.write(env, r); err != nil {
		return err
	}
	if r.Duplicates+r.Missing > 0 {
		return fmt.Errorf("%d changes came twice, %d never", r.Duplicates, r.Missing)
	}
	return nil
}

func (f *feedCommand) measure(ctx context.Context, dir string) (*feedReport, error) {
	db, err := engine.Open(ctx, dir, &engine.Options{Durability: engine.Buffered})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "docs", engine.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		return nil, err
	}
	most := int64(float64(f.Rate)*f.For.Seconds()) + 1
	b := &feedBench{c: c, start: time.Now(), put: make([]atomic.Int64, most), seen: make([]uint8, most), lag: hdrhistogram.New(1, int64(time.Minute), 3)}
	following, stop := context.WithCancel(ctx)
	defer stop()
	followed := make(chan error, 1)
	if f.Alone {
		followed <- nil
	} else {
		go func() { followed <- b.follow(following) }()
	}
	r := &feedReport{V: 1, Workload: "feed-follow", Machine: measure.DescribeMachine(dir), OfferedPS: float64(f.Rate)}
	splits := make(chan int, 1)
	go func() { splits <- b.split(following, f.Splits, f.For) }()
	if r.Puts, err = b.write(ctx, float64(f.Rate), int(f.Bytes), f.For); err != nil {
		return nil, err
	}
	r.PutsPS = float64(r.Puts) / time.Since(b.start).Seconds()
	if !f.Alone {
		// One more change, which tells the follower to look at whether that is all.
		if _, err := c.Upsert(ctx, []byte(`{"id":"end","k":"end"}`), nil); err != nil {
			return nil, err
		}
	}
	if err := <-followed; err != nil {
		return nil, err
	}
	stop()
	r.Splits = <-splits
	if f.Alone {
		return r, nil
	}
	r.Changes, r.Duplicates = b.changes, b.twice
	for i := range r.Puts {
		if b.seen[i] == 0 {
			r.Missing++
		}
	}
	ms := func(n int64) float64 { return float64(n) / 1e6 }
	r.LagP50, r.LagP99, r.LagMax = ms(b.lag.ValueAtQuantile(50)), ms(b.lag.ValueAtQuantile(99)), ms(b.lag.Max())
	return r, nil
}

// feedBench is a measurement under way.
type feedBench struct {
	c     *engine.Container
	start time.Time
	put   []atomic.Int64 // when, in nanoseconds since the start

	// Of the follower.
	seen           []uint8
	changes, twice int64
	lag            *hdrhistogram.Histogram
}

// feedBurst is how many puts are due together: a goroutine cannot sleep for less
// than a millisecond or so.
const feedBurst = time.Millisecond

// write puts documents at a rate.
func (b *feedBench) write(ctx context.Context, rate float64, bytes int, d time.Duration) (n int64, err error) {
	pad := make([]byte, bytes)
	for i := range pad {
		pad[i] = 'x'
	}
	var doc []byte
	for ctx.Err() == nil && n < int64(len(b.put)) {
		passed := time.Since(b.start)
		if passed >= d {
			break
		}
		due := int64(rate * passed.Seconds())
		if n >= due {
			time.Sleep(feedBurst)
			continue
		}
		for ; n < due && n < int64(len(b.put)); n++ {
			doc = fmt.Appendf(doc[:0], `{"id":"%d","k":"k%d","v":"`, n, n%1009)
			doc = append(append(doc, pad[:max(0, bytes-len(doc)-2)]...), `"}`...)
			b.put[n].Store(int64(time.Since(b.start)))
			if _, err := b.c.Upsert(ctx, doc, nil); err != nil {
				return n, err
			}
		}
	}
	if ctx.Err() != nil {
		return n, errInterrupted
	}
	return n, nil
}

// follow follows the feed until everything was seen, or the last put was and
// the feed has shown what there is.
func (b *feedBench) follow(ctx context.Context) error {
	ended := false // the change that is put last was shown
	inner, stop := context.WithCancel(ctx)
	defer stop()
	o := &engine.ChangeOptions{Follow: true, Progress: func(engine.Position) {
		if ended {
			stop()
		}
	}}
	for ch, err := range b.c.Changes(inner, engine.AllPartitions(), engine.FromStart(), o) {
		if err != nil {
			if inner.Err() != nil && ctx.Err() == nil {
				return nil
			}
			return err
		}
		if ch.ID == "end" {
			ended = true
			continue
		}
		var n int64
		for _, digit := range []byte(ch.ID) {
			n = 10*n + int64(digit-'0')
		}
		b.changes++
		if b.seen[n]++; b.seen[n] > 1 {
			b.twice++
		}
		_ = b.lag.RecordValue(min(max(1, int64(time.Since(b.start))-b.put[n].Load()), int64(time.Minute)))
	}
	return nil
}

// split splits the first partition so many times, evenly over the time.
func (b *feedBench) split(ctx context.Context, n int, d time.Duration) (done int) {
	for i := range n {
		select {
		case <-time.After(time.Until(b.start.Add(d * time.Duration(i+1) / time.Duration(n+1)))):
		case <-ctx.Done():
			return done
		}
		job, err := b.c.Split(ctx, b.c.Partitions()[0].ID, nil)
		if err == nil {
			err = job.Wait(ctx)
		}
		if err == nil {
			done++
		}
	}
	return done
}

func (r *feedReport) print(w io.Writer) {
	fmt.Fprintf(w, "puts     %d, %.0f/s of %.0f/s offered, splits %d\n", r.Puts, r.PutsPS, r.OfferedPS, r.Splits)
	fmt.Fprintf(w, "changes  %d, twice %d, missing %d\n", r.Changes, r.Duplicates, r.Missing)
	fmt.Fprintf(w, "lag      p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", r.LagP50, r.LagP99, r.LagMax)
}
