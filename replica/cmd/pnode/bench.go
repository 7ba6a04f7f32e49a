package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/protocol"
)

type benchCommand struct {
	Dir        string        `help:"Directory for the cluster, which is kept. Default: a temporary one, which is removed." type:"path"`
	Partitions int           `help:"Physical partitions, each a Raft group." default:"8"`
	Clients    int           `help:"Clients at the same time." default:"64"`
	Size       int           `help:"Size of a document, in bytes." default:"300"`
	Time       time.Duration `help:"How long each measurement takes." default:"5s"`
	Repeat     int           `help:"How often each is made." default:"3"`
	Only       string        `help:"Measure only what has this in its name: put, strong, eventual."`
	Idle       bool          `help:"Measure what the groups cost when nothing happens, and nothing else."`
	CatchUp    cli.Size      `help:"Measure what clients notice of a node that was down while so much was written, and catches up, and nothing else." placeholder:"SIZE"`
	Rate       float64       `help:"Writes a second of all clients together while a node catches up, each timed from when it was due. 0: as many as they can."`
	Profile    bool          `help:"Keep profiles of the processor in the directory."`
}

// measured are the names of what is measured.
var measured = [...]string{"synced put", "strong read", "eventual read"}

// figure is one measurement.
type figure struct {
	count     int64
	took      time.Duration
	p50, p99  time.Duration
	nodes, me time.Duration // of processors
}

// Run implements the command.
func (c *benchCommand) Run(ctx context.Context, e *environment) error {
	err := cmp.Or(atLeast("clients", c.Clients, 1), atLeast("size", c.Size, 0), atLeast("time", c.Time, time.Millisecond), atLeast("repeat", c.Repeat, 1), atLeast("rate", c.Rate, 0))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(measured[:], func(what string) bool { return strings.Contains(what, c.Only) }) {
		return cli.Usagef("--only is %q: what is measured is %s", c.Only, strings.Join(measured[:], ", "))
	}
	dir, remove, err := trialDir(c.Dir)
	if err != nil {
		return err
	}
	defer remove()
	t, err := newTrial(ctx, dir, []cluster.Container{{Name: container, PartitionKey: []string{"/k"}, Partitions: c.Partitions}}, c.Profile, false)
	if err != nil {
		return err
	}
	defer t.close()
	switch {
	case c.Idle:
		return c.idle(ctx, e, t)
	case c.CatchUp > 0:
		return c.catchUp(ctx, e, t)
	}
	table := cli.NewTable("what", "clients", "per second", "p50", "p99", "CPU of the nodes, each", "CPU of the client, each")
	keys, put := benchKeys(), c.putter(t)
	read := func(level protocol.Level) func(ctx context.Context, worker, n int) error {
		return func(ctx context.Context, worker, n int) error {
			key := keys[(worker*31+n)%len(keys)]
			_, err := t.client.Read(ctx, level, container, engine.StringKey(key), "i0-1")
			if errors.Is(err, engine.ErrNotFound) {
				err = nil
			}
			return err
		}
	}
	for _, m := range []struct {
		what    string
		clients int
		do      func(ctx context.Context, worker, n int) error
	}{
		{measured[0], c.Clients, put}, {measured[0], 1, put},
		{measured[1], c.Clients, read(protocol.Strong)}, {measured[1], 1, read(protocol.Strong)},
		{measured[2], c.Clients, read(protocol.Eventual)},
	} {
		if !strings.Contains(m.what, c.Only) {
			continue
		}
		for range c.Repeat {
			f, err := measure(ctx, t, m.clients, 0, c.passes, m.do)
			if err != nil {
				return fmt.Errorf("%s: %w", m.what, err)
			}
			table.Row(m.what, fmt.Sprint(m.clients), f.rate(), f.p50.Round(time.Microsecond).String(), f.p99.Round(time.Microsecond).String(), f.each(f.nodes), f.each(f.me))
		}
	}
	table.Print(e.stdout, "")
	return t.running()
}

// rate returns how often the thing was done in a second.
func (f *figure) rate() string { return fmt.Sprintf("%.0f", float64(f.count)/f.took.Seconds()) }

// each returns what a part of a time comes to for each of what was done.
func (f *figure) each(d time.Duration) string {
	return (d / time.Duration(max(f.count, 1))).Round(100 * time.Nanosecond).String()
}

// benchKeys returns partition keys in all groups.
func benchKeys() []string {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	return keys
}

// acknowledged passes the error of a write on, unless it was carried out and only its results are lost.
func acknowledged(err error) error {
	if errors.Is(err, client.ErrResults) {
		return nil
	}
	return err
}

// putter returns what a client does that writes documents of the size, each of them again and again.
func (c *benchCommand) putter(t *trial) func(ctx context.Context, worker, n int) error {
	keys := benchKeys()
	return func(ctx context.Context, worker, n int) error {
		key := keys[(worker*31+n)%len(keys)]
		id := fmt.Sprint("i", worker, "-", n%100)
		_, err := t.client.Upsert(ctx, container, engine.StringKey(key), document(id, key, n, c.Size))
		return acknowledged(err)
	}
}

// passes returns when the time of a measurement is over.
func (c *benchCommand) passes(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(c.Time):
		return nil
	}
}

// measure has clients do something until the function until returns. With a rate, so much is due in a
// second of all clients together, and the time of each begins when it was due.
func measure(ctx context.Context, t *trial, clients int, rate float64, until func(context.Context) error, do func(ctx context.Context, worker, n int) error) (f figure, err error) {
	var tasks sync.WaitGroup
	var stop atomic.Bool
	var mu sync.Mutex
	var times []time.Duration
	nodes, _, err := t.usage()
	if err != nil {
		return f, err
	}
	me := ownUsage()
	begun := time.Now()
	for worker := range clients {
		tasks.Go(func() {
			var mine []time.Duration
			var failed error
			for n := 0; !stop.Load() && failed == nil; n++ {
				at := time.Now()
				if rate > 0 {
					at = begun.Add(time.Duration((float64(n*clients+worker) / rate) * float64(time.Second)))
					if time.Sleep(time.Until(at)); stop.Load() {
						break
					}
				}
				failed = do(ctx, worker, n)
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			times, err = append(times, mine...), errors.Join(err, failed)
		})
	}
	waited := until(ctx)
	stop.Store(true)
	tasks.Wait()
	f.took, f.count = time.Since(begun), int64(len(times))
	after, _, usageErr := t.usage()
	if err = errors.Join(err, waited, usageErr); err != nil || f.count == 0 {
		return f, err
	}
	f.nodes, f.me = after-nodes, ownUsage()-me
	slices.Sort(times)
	f.p50, f.p99 = times[len(times)/2], times[len(times)*99/100]
	return f, nil
}

// idle measures groups that have nothing to do.
func (c *benchCommand) idle(ctx context.Context, e *environment, t *trial) error {
	for range c.Repeat {
		before, _, err := t.usage()
		if err != nil {
			return err
		}
		begun := time.Now()
		if err = c.passes(ctx); err != nil {
			return err
		}
		after, resident, err := t.usage()
		if err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%d idle groups: %.1f %% of a processor and %d MiB for each process\n", c.Partitions, 100*(after-before).Seconds()/time.Since(begun).Seconds()/3, resident/3>>20)
	}
	return t.running()
}
