package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
)

// Config says what a run is made of.
type Config struct {
	// Pnode is the program of the nodes.
	Pnode string
	// Dir is a directory that is made for the run.
	Dir  string
	Seed uint64
	// Time is how long faults happen.
	Time time.Duration
	// Hold is how long a fault lasts, about. 0: a second and a half.
	Hold time.Duration
	// Flip has bits of one node flip in the end. That node may refuse to start.
	Flip       bool
	Partitions int // 0: 4
	// Namespaces has each node in a network namespace of its own. The process must be one that
	// Isolate has started, and makes one run.
	Namespaces bool
	Log        io.Writer // nil: silent
}

// Event is a fault that has happened.
type Event struct {
	What  string
	Took  time.Duration
	Acks  int64  // writes meanwhile
	Notes string // such as how nodes have ended by themselves
}

// Result is what a run has shown.
type Result struct {
	Seed       uint64
	Events     []Event
	Acks       int64
	Operations int // on registers
	Checks     int
	Violations []string
	Skipped    []string // faults that this machine does not allow
}

// fault breaks something and, with false, mends it.
type fault struct {
	name string
	do   func(s *nodeSet, node, other uint64, on bool) error
}

func one(sig syscall.Signal) func(s *nodeSet, node, other uint64, on bool) error {
	return func(s *nodeSet, node, _ uint64, on bool) error {
		if on {
			s.signal(node, sig)
		}
		return nil
	}
}

var every = []fault{
	{"kill -9 of node %d", one(syscall.SIGKILL)},
	{"kill -9 of all nodes", func(s *nodeSet, _, _ uint64, on bool) error {
		for _, id := range s.ids {
			if on {
				s.signal(id, syscall.SIGKILL)
			}
		}
		return nil
	}},
	{"what node %d says to node %d does not come", func(s *nodeSet, node, other uint64, on bool) error { return s.cut(node, other, on) }},
	{"node %d is cut off from the others", func(s *nodeSet, node, _ uint64, on bool) error { return s.deaf(node, true, on) }},
	{"nothing that is said to node %d comes", func(s *nodeSet, node, _ uint64, on bool) error { return s.deaf(node, false, on) }},
	{"rolling restart", func(s *nodeSet, node, _ uint64, on bool) error {
		for i := range s.ids {
			if !on {
				break
			}
			id := s.ids[(int(node)+i)%len(s.ids)]
			s.signal(id, syscall.SIGTERM)
			if err := s.start(id); err != nil {
				return err
			}
			time.Sleep(time.Second)
		}
		return nil
	}},
	{"kill -9 of node %d while node %d is cut off", func(s *nodeSet, node, other uint64, on bool) error {
		if on {
			s.signal(node, syscall.SIGKILL)
		}
		var errs []error
		for _, o := range s.ids {
			if o != other {
				errs = append(errs, s.cut(other, o, on))
			}
		}
		return errors.Join(errs...)
	}},
}

var stopping = fault{"SIGSTOP of node %d", func(s *nodeSet, node, _ uint64, on bool) error {
	if on {
		s.signal(node, sigStop)
	} else {
		s.signal(node, sigCont)
	}
	return nil
}}

var filling = fault{"the disk of node 3 is full", func(s *nodeSet, _, _ uint64, on bool) error { return s.fill(on) }}

// Run runs. An error says that the run could not be judged; what was judged wrong is in the
// result.
func Run(ctx context.Context, cfg Config) (r Result, err error) {
	if cfg.Hold == 0 {
		cfg.Hold = 1500 * time.Millisecond
	}
	if cfg.Partitions == 0 {
		cfg.Partitions = 4
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	r.Seed = cfg.Seed
	s, err := newNodes(ctx, &cfg)
	if err != nil {
		return r, err
	}
	defer s.close()
	if s.net != nil {
		s.clock = wrongClocks(cfg.Seed)
	}
	if err = s.startAll(); err != nil {
		return r, err
	}
	w := &workload{s: s, j: &judge{begun: time.Now()}, cl: s.client(0), logs: make(map[string]*sequence), owners: make(map[string][]int)}
	defer w.cl.Close()
	for _, id := range s.ids {
		c := s.client(id)
		defer c.Close()
		w.near = append(w.near, c)
	}
	if err = w.prepare(ctx); err != nil {
		return r, err
	}
	w.start(cfg.Seed)
	w.startFeeds(cfg.Seed)
	err = w.schedule(ctx, &cfg, &r)
	w.stop.Store(true)
	w.ends()
	w.tasks.Wait()
	if err == nil {
		err = w.recovered(ctx)
	}
	if err == nil {
		err = w.finish()
	}
	w.j.registers(time.Minute)
	r.Acks, r.Operations, r.Checks, r.Violations = w.acks.Load(), len(w.j.history), w.j.checks, w.j.violations
	return r, err
}

// schedule has faults happen.
func (w *workload) schedule(ctx context.Context, cfg *Config, r *Result) error {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0))
	faults := every
	if runtime.GOOS == "linux" {
		faults = append(faults[:len(faults):len(faults)], stopping)
	} else {
		r.Skipped = append(r.Skipped, "SIGSTOP")
	}
	if w.s.net != nil {
		more, skipped := w.s.inNamespaces()
		faults = append(faults[:len(faults):len(faults)], more...)
		r.Skipped = append(r.Skipped, skipped...)
	}
	if w.s.small != 0 {
		faults = append(faults[:len(faults):len(faults)], filling)
	} else {
		r.Skipped = append(r.Skipped, "a full disk: it needs a file system of its own, and the right to make one")
	}
	nodes := uint64(len(w.s.ids))
	order := rng.Perm(len(faults)) // each once before one comes again
	for i, end := 0, time.Now().Add(cfg.Time); time.Now().Before(end); i++ {
		if i > 0 && i%len(order) == 0 {
			order = rng.Perm(len(faults))
		}
		f := faults[order[i%len(order)]]
		node := rng.Uint64N(nodes) + 1
		other := (node+rng.Uint64N(nodes-1))%nodes + 1
		if err := w.happens(ctx, cfg, r, f, node, other, rng); err != nil {
			return err
		}
	}
	if !cfg.Flip {
		return nil
	}
	node := rng.Uint64N(nodes) + 1
	flip := fault{"bits of node %d flip", func(s *nodeSet, node, _ uint64, on bool) error {
		if !on {
			return nil
		}
		s.signal(node, syscall.SIGKILL)
		where, err := s.flip(node, rng, 3)
		fmt.Fprintln(cfg.Log, "flipped:", where)
		return err
	}}
	return w.happens(ctx, cfg, r, flip, node, 0, rng)
}

// happens has a fault happen, and mends it.
func (w *workload) happens(ctx context.Context, cfg *Config, r *Result, f fault, node, other uint64, rng *rand.Rand) error {
	e := Event{What: f.name}
	switch strings.Count(f.name, "%d") {
	case 1:
		e.What = fmt.Sprintf(f.name, node)
	case 2:
		e.What = fmt.Sprintf(f.name, node, other)
	}
	begun, before := time.Now(), w.acks.Load()
	if err := f.do(w.s, node, other, true); err != nil {
		return fmt.Errorf("%s: %w", e.What, err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(cfg.Hold/2 + time.Duration(rng.Int64N(int64(cfg.Hold)))):
	}
	if err := f.do(w.s, node, other, false); err != nil {
		return fmt.Errorf("%s, mended: %w", e.What, err)
	}
	if err := w.s.startAll(); err != nil {
		return err
	}
	time.Sleep(cfg.Hold/2 + time.Duration(rng.Int64N(int64(cfg.Hold))))
	if m := w.s.move; m != nil {
		w.s.move = nil
		<-m.done
		e.Notes = m.what
		if m.err != nil {
			return fmt.Errorf("%s: %s: %w", e.What, m.what, m.err)
		}
	}
	for _, id := range w.s.ids {
		if !w.s.runs(id) { // read its log only now that it has ended
			text := strings.TrimSpace(w.s.procs[id].log.String())
			e.Notes += fmt.Sprintf("node %d has ended: %s", id, text[strings.LastIndexByte(text, '\n')+1:])
		}
	}
	e.Took, e.Acks = time.Since(begun), w.acks.Load()-before
	r.Events = append(r.Events, e)
	checks, violations := w.j.state()
	fmt.Fprintf(cfg.Log, "%s: %v, %d writes; %d checks, %d violations until now. %s\n", e.What, e.Took.Round(time.Millisecond), e.Acks, checks, violations, e.Notes)
	return nil
}

// recovered waits until the cluster takes a write to each group again.
func (w *workload) recovered(ctx context.Context) error {
	if err := w.s.mend(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	missing := make(map[uint64]bool)
	for _, g := range w.s.d.Groups() {
		missing[g.ID] = true
	}
	v := client.View{Client: w.cl, Session: client.NewSession()}
	for i := 0; len(missing) > 0; i++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d groups take no writes after all faults have ended: %w", len(missing), err)
		}
		key := fmt.Sprint("end", i)
		group := w.cl.GroupOf(container, engine.StringKey(key))
		if !missing[group] {
			continue
		}
		if out, err := w.write(v, key, upsert(document{"i", key, 1})); out == carried {
			delete(missing, group)
		} else if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, client.ErrUnknown) {
			return err
		}
	}
	return nil
}

// Print prints the result as a table.
func (r *Result) Print(to io.Writer) {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tand recovery took\twrites meanwhile\tnotes")
	for _, e := range r.Events {
		fmt.Fprintf(t, "%s\t%v\t%d\t%.150s\n", e.What, e.Took.Round(10*time.Millisecond), e.Acks, e.Notes)
	}
	_ = t.Flush() // who prints does not look
	for _, s := range r.Skipped {
		fmt.Fprintln(to, "not here:", s)
	}
	fmt.Fprintf(to, "seed %d: %d writes acknowledged, %d operations on registers, %d checks, %d violations\n", r.Seed, r.Acks, r.Operations, r.Checks, len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(to, "  %.300s\n", v)
	}
}
