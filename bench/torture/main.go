package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

// victimEnv says that the process is a child.
const victimEnv = "CLEAVE_TORTURE_VICTIM"

func main() {
	if os.Getenv(victimEnv) != "" {
		victimMain(os.Args[1:], nil)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	violations, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	if violations > 0 {
		os.Exit(1)
	}
}

// victimMain is the child, whose argument is its task. plant is that of runVictim.
func victimMain(args []string, plant func(*victim)) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the parent ends it
	var t task
	err := json.Unmarshal([]byte(strings.Join(args, " ")), &t)
	if err == nil {
		err = runVictim(context.Background(), t, plant)
	}
	if err != nil {
		fail(err)
	}
}

// result is a row of the table.
type result struct {
	medium, end  string
	cycles       int
	acknowledged int
	backups      int
	shown        int
	violations   []string
	took         time.Duration
}

// plan is what is to be done.
type plan struct {
	counts   map[end]int // cycles on each medium
	damages  int
	fs       []string
	seed     uint64
	parallel int
	setting  setting
	mutant   bool
	results  []result
}

func run(ctx context.Context) (violations int, err error) {
	var (
		kills    = flag.Int("kills", 20, "cycles that end by a kill, on each medium")
		straces  = flag.Int("strace", 0, "cycles that end by a kill at a system call, in a directory (needs strace)")
		cuts     = flag.Int("cuts", 0, "cycles that end by a power cut, on each file system of -fs (root)")
		fulls    = flag.Int("fulls", 0, "cycles in which the disk is full for a while, or a thin device, on each file system of -fs (root)")
		hurts    = flag.Int("damages", 0, "damages to files of closed stores")
		fs       = flag.String("fs", "", "file systems to make images of: ext4, ext4-journal, xfs, btrfs, btrfs-clone, thin-ext4, thin-btrfs (root)")
		seed     = flag.Uint64("seed", rand.Uint64(), "draws everything but the times of the ends")
		parallel = flag.Int("parallel", 1, "stores at the same time")
		named    = flag.String("setting", "small", "what is written to: small, tiny, many, ttl")
		soaks    = flag.Duration("soak", 0, "time of a soak: restarts, and samples of what the process and the store take")
		rate     = flag.Float64("rate", 150, "operations a second of a soak")
		mutant   = flag.Bool("mutant", false, "take a document out of each store: every cycle must be a violation")
	)
	flag.Parse()
	fmt.Printf("seed %d\n", *seed)
	st, err := settingOf(*named)
	if err != nil {
		return 0, err
	}
	if *soaks > 0 {
		return soak(ctx, os.Stdout, st, *soaks, *rate, *seed)
	}
	p := &plan{
		counts:  map[end]int{kill: *kills, cut: *cuts, full: *fulls, atCall: *straces},
		damages: *hurts, fs: strings.FieldsFunc(*fs, func(r rune) bool { return r == ',' }),
		seed: *seed, parallel: max(*parallel, 1), setting: st, mutant: *mutant,
	}
	err = p.carryOut(ctx)
	violations = report(p.results)
	if ctx.Err() != nil {
		err = nil // the table is of the time so far
	}
	return violations, err
}

func (p *plan) carryOut(ctx context.Context) error {
	for _, e := range []end{kill, atCall} {
		if err := p.cycles(ctx, newPlain, e); err != nil {
			return err
		}
	}
	for _, title := range p.fs {
		ends := []end{kill, cut, full}
		if strings.HasPrefix(title, "thin-") {
			ends = []end{thin}
		}
		for _, e := range ends {
			if err := p.cycles(ctx, func() (medium, error) { return newImage(title) }, e); err != nil {
				return err
			}
		}
	}
	if p.damages == 0 {
		return nil
	}
	return p.share(ctx, "damages", p.damages, func(ctx context.Context, worker, n int, progress func(int)) (result, error) {
		return damages(ctx, n, p.seed+uint64(worker), progress)
	})
}

// cycles carries out those with one end, on media of which each worker has one.
func (p *plan) cycles(ctx context.Context, open func() (medium, error), e end) error {
	n := p.counts[e]
	if e == thin {
		n = p.counts[full]
	}
	if n == 0 {
		return nil
	}
	return p.share(ctx, e.String(), n, func(ctx context.Context, worker, n int, progress func(int)) (r result, err error) {
		m, err := open()
		if err != nil {
			return r, err
		}
		defer m.remove()
		s := newSeries(m, e, p.setting, p.seed+uint64(worker))
		s.mutant = p.mutant
		for i := 0; i < n && err == nil; i++ {
			if err = s.cycle(ctx); err == nil {
				r.cycles++
				progress(len(s.violations))
			}
		}
		if err != nil {
			err = fmt.Errorf("%s, %v: %w", m.name(), e, err)
		}
		r.medium, r.end, r.acknowledged, r.backups, r.shown, r.violations = m.name(), e.String(), s.acknowledged, s.backups, s.shown, s.violations
		return r, err
	})
}

// share shares n pieces of work among the workers and adds their results up. It
// tells on standard error how far they are.
func (p *plan) share(ctx context.Context, what string, n int, work func(ctx context.Context, worker, n int, progress func(violations int)) (result, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	var mu sync.Mutex
	var sum result
	var errs []error
	done, told := 0, begin
	violations := make([]int, p.parallel)
	var workers sync.WaitGroup
	for w := range p.parallel {
		part := n / p.parallel
		if w < n%p.parallel {
			part++
		}
		workers.Go(func() {
			r, err := work(ctx, w, part, func(broken int) {
				mu.Lock()
				defer mu.Unlock()
				violations[w] = broken
				if done++; time.Since(told) > 10*time.Second {
					told = time.Now()
					all := 0
					for _, v := range violations {
						all += v
					}
					fmt.Fprintf(os.Stderr, "%s: %d of %d after %v, %d violations\n", what, done, n, time.Since(begin).Round(time.Second), all)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				cancel()
			}
			sum.medium, sum.end = r.medium, r.end
			sum.cycles += r.cycles
			sum.acknowledged += r.acknowledged
			sum.backups += r.backups
			sum.shown += r.shown
			sum.violations = append(sum.violations, r.violations...)
		})
	}
	workers.Wait()
	sum.took = time.Since(begin)
	p.results = append(p.results, sum)
	return errors.Join(errs...)
}

// report prints the table and returns the number of violations.
func report(results []result) (violations int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "medium\tend\tcycles\tacknowledged\tchanges shown\tcopies opened\tviolations\ttook")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%v\n", r.medium, r.end, r.cycles, r.acknowledged, r.shown, r.backups, len(r.violations), r.took.Round(time.Second))
		violations += len(r.violations)
	}
	_ = w.Flush()
	for _, r := range results {
		for _, v := range r.violations {
			fmt.Printf("%s, %s: %s\n", r.medium, r.end, v)
		}
	}
	return violations
}
