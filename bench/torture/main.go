package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// victimEnv says that the process is a child.
const victimEnv = "CLEAVE_TORTURE_VICTIM"

func main() {
	if os.Getenv(victimEnv) != "" {
		if err := victimMain(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
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

// victimMain is the child, whose argument is its task.
func victimMain(args []string) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the parent ends it
	var t task
	if err := json.Unmarshal([]byte(strings.Join(args, " ")), &t); err != nil {
		return err
	}
	return runVictim(context.Background(), t)
}

// result is a row of the table.
type result struct {
	medium, end  string
	cycles       int
	acknowledged int
	backups      int
	violations   []string
	took         time.Duration
}

func run(ctx context.Context) (violations int, err error) {
	var (
		kills  = flag.Int("kills", 20, "cycles that end by a kill, on each medium")
		cuts   = flag.Int("cuts", 0, "cycles that end by a power cut, on each file system of -fs (root)")
		fulls  = flag.Int("fulls", 0, "cycles in which the disk is full for a while, on each file system of -fs (root)")
		hurts  = flag.Int("damages", 0, "damages to files of a closed store")
		fs     = flag.String("fs", "", "file systems to make images of: ext4, ext4-journal, xfs (root)")
		seed   = flag.Uint64("seed", rand.Uint64(), "draws everything but the times of the ends")
		soaks  = flag.Duration("soak", 0, "time of a soak: restarts, and samples of what the process and the store take")
		rate   = flag.Float64("rate", 150, "operations a second of a soak")
		named  = flag.String("setting", "small", "what a soak writes to: small, tiny, many, ttl")
		mutant = flag.Bool("mutant", false, "take a document out of each store: every cycle must be a violation")
	)
	flag.Parse()
	fmt.Printf("seed %d\n", *seed)
	if *soaks > 0 {
		st, err := settingOf(*named)
		if err != nil {
			return 0, err
		}
		return soak(ctx, os.Stdout, st, *soaks, *rate, *seed)
	}
	var results []result
	add := func(m medium, e end, n int) error {
		if n == 0 {
			return nil
		}
		s := newSeries(m, e, settings[0], *seed)
		s.mutant = *mutant
		begin := time.Now()
		for i := range n {
			if err := s.cycle(ctx); err != nil {
				return fmt.Errorf("%s, %v: %w", m.name(), e, err)
			}
			fmt.Fprintf(os.Stderr, "\r%s, %v: %d of %d, %d violations ", m.name(), e, i+1, n, len(s.violations))
		}
		fmt.Fprintln(os.Stderr)
		results = append(results, result{m.name(), e.String(), n, s.acknowledged, s.backups, s.violations, time.Since(begin)})
		return nil
	}
	defer func() { violations = report(results) }()

	m, err := newPlain()
	if err != nil {
		return 0, err
	}
	defer m.remove()
	if err := add(m, kill, *kills); err != nil {
		return 0, err
	}
	for _, kind := range strings.FieldsFunc(*fs, func(r rune) bool { return r == ',' }) {
		if err := onImage(kind, func(m medium) error {
			for _, part := range []struct {
				end end
				n   int
			}{{kill, *kills}, {cut, *cuts}, {full, *fulls}} {
				if err := add(m, part.end, part.n); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return 0, err
		}
	}
	if *hurts > 0 {
		begin := time.Now()
		r, err := damages(ctx, *hurts, *seed)
		if err != nil {
			return 0, err
		}
		r.took = time.Since(begin)
		results = append(results, r)
	}
	return 0, nil
}

// onImage calls fn with an image of a file system, which is removed afterwards.
func onImage(kind string, fn func(medium) error) error {
	m, err := newImage(kind, 400)
	if err != nil {
		return err
	}
	defer m.remove()
	return fn(m)
}

// report prints the table and returns the number of violations.
func report(results []result) (violations int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "medium\tend\tcycles\tacknowledged\tbackups restored\tviolations\ttook")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%v\n", r.medium, r.end, r.cycles, r.acknowledged, r.backups, len(r.violations), r.took.Round(time.Second))
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
