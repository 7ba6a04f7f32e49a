package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// end is how a child ends.
type end int

const (
	kill end = iota
	cut
	full   // the disk is full for a while; then a kill
	thin   // the device below is full, of which the file system does not know; then a kill
	atCall // killed by strace at a system call
)

func (e end) String() string {
	return [...]string{"kill", "cut", "full disk, kill", "full device, kill", "kill at a call"}[e]
}

// storeCycles is after how many cycles a new store is begun.
const storeCycles = 25

// longest is how long a child works at most, and copies the share of the cycles
// that look at backups and checkpoints, and verify: one of so many.
const (
	longest = 250 * time.Millisecond
	copies  = 6
)

// series are cycles on one medium.
type series struct {
	medium  medium
	end     end
	mutant  bool
	setting setting
	rng     *rand.Rand

	longest      time.Duration // a child works, but for the end
	seed         uint64
	buffered     bool   // what the child writes in this cycle
	models       models // of what the store holds
	feed         *consumer
	cycles       int
	acknowledged int
	backups      int // restored, and checkpoints opened
	shown        int // changes that feeds have shown
	atCalls      int // kills at a system call
	kept         int
	taken        int // documents that were taken out, with mutant
	violations   []string
}

func newSeries(m medium, e end, st setting, seed uint64) *series {
	return &series{medium: m, end: e, setting: st, rng: rand.New(rand.NewPCG(seed, uint64(e))), longest: longest}
}

// cycle starts a child, ends it and checks what it leaves.
func (s *series) cycle(ctx context.Context) error {
	dir := s.medium.dir()
	if s.cycles%storeCycles == 0 {
		if err := errors.Join(os.RemoveAll(dir), clearBeside(dir)); err != nil {
			return err
		}
		s.seed = s.rng.Uint64()
		s.models, s.feed = newModels(s.setting.shape, s.seed), newConsumer(s.setting.shape, s.seed)
	}
	s.cycles++
	s.buffered = s.rng.IntN(3) == 0
	least, err := s.life(ctx) // what was acknowledged
	if err != nil {
		return s.violated(err)
	}
	if err := s.medium.again(); err != nil {
		return err
	}
	most := make([]int, len(least))
	for i, l := range s.models {
		s.acknowledged += least[i] - l.n
		if most[i] = least[i] + 1; s.end == cut {
			most[i] += 1000 // the cut was not told of the last acknowledgements
		}
		if s.buffered && (s.end == cut || s.end == thin) {
			least[i] = l.n // what the check before had read is durable; what a device refused is lost as by a cut
		}
	}
	if s.rng.IntN(copies) == 0 {
		err = s.checkCopies(ctx, most)
	}
	if err == nil {
		before := s.feed.shown
		err = withStore(ctx, dir, s.setting.options, func(db *engine.DB) error {
			if s.mutant {
				is := make(models, len(s.models))
				for i, l := range s.models {
					is[i] = l.copy()
					is[i].advance(least[i])
				}
				taken, err := takeOne(ctx, db, is)
				if err != nil {
					return err
				}
				if taken {
					s.taken++
				}
			}
			is, err := checkStore(ctx, db, s.models, least, most, s.feed, s.rng.IntN(copies) == 0)
			if err == nil && s.end == full {
				err = s.takesWrites(ctx, db, is)
			}
			if err == nil {
				s.models = is
			}
			return err
		})
		s.shown += s.feed.shown - before
	}
	return s.violated(errors.Join(err, clearBeside(dir)))
}

// takesWrites carries out an operation of each lane in a store whose disk was full and has
// space again, and on its model.
func (s *series) takesWrites(ctx context.Context, db *engine.DB, is models) error {
	cs, err := openContainers(ctx, db, s.setting.def)
	if err != nil {
		return violation("there is space again: %w", err)
	}
	return cs.takeWrites(ctx, is)
}

func (cs containers) takeWrites(ctx context.Context, is models) error {
	for _, l := range is {
		op := l.next()
		if err := cs.do(ctx, l, op); err != nil {
			return violation("lane %d, operation %d, there is space again: %w", l.number, op.n, err)
		}
		l.apply(op)
	}
	return nil
}

// checkCopies looks at the backup and the checkpoint that a child has made.
func (s *series) checkCopies(ctx context.Context, most []int) error {
	there, err := checkBackup(ctx, s.medium.dir(), s.setting.options, s.models, most)
	if there {
		s.backups++
	}
	if err != nil {
		return err
	}
	if checkpoint := s.medium.dir() + ".checkpoint"; exists(checkpoint) {
		s.backups++
		return checkCopy(ctx, checkpoint, s.setting.options, s.models, most)
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// violated counts a violation, keeps a copy of the store, and begins a new one.
func (s *series) violated(err error) error {
	if !isViolation(err) || errors.Is(err, context.Canceled) {
		return err
	}
	text := fmt.Sprintf("cycle %d, seed %d, buffered %t: %v", s.cycles, s.seed, s.buffered, err)
	if !s.mutant && s.kept < 3 {
		s.kept++
		kept := filepath.Join(os.TempDir(), fmt.Sprintf("torture-kept-%d-%d", s.seed, s.cycles))
		if os.CopyFS(kept, os.DirFS(filepath.Dir(s.medium.dir()))) == nil {
			text += "\n  kept: " + kept
		}
	}
	s.violations = append(s.violations, text)
	s.cycles += storeCycles - s.cycles%storeCycles
	return nil
}

// callClasses are the system calls at one of which strace kills the child.
var callClasses = []string{"pwrite64", "write", "fdatasync,fsync", "renameat,renameat2,rename", "openat", "unlinkat,linkat", "ftruncate,fallocate", "mmap,munmap"}

// killed says that a process was killed, or that strace ended as such.
func killed(err error) bool {
	exit := new(exec.ExitError)
	return errors.As(err, &exit) && strings.Contains(exit.String(), "killed")
}

// life runs a child to its end and returns the last operation of each lane that
// it had acknowledged by then.
func (s *series) life(ctx context.Context) ([]int, error) {
	dir := s.medium.dir()
	t := task{Setting: s.setting.name, Dir: dir, Seed: s.seed, Buffered: s.buffered, Cut: s.end == cut, At: s.models.at()}
	var wrapper []string
	switch s.end {
	case full, thin:
		ballast, err := s.medium.full()
		if err != nil {
			return nil, err
		}
		defer os.Remove(ballast)
		if t.Failing = s.end == thin; !t.Failing {
			t.Ballast = ballast
		}
	case atCall:
		class := callClasses[s.rng.IntN(len(callClasses))]
		wrapper = []string{"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + class, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", class, 1+s.rng.IntN(120))}
	}
	c, err := startChild(ctx, t, s.feed, nil, wrapper...)
	if err != nil {
		return nil, err
	}
	hung := time.After(2 * time.Minute)
	wait := time.After(time.Duration(s.rng.Int64N(int64(s.longest / 5))))
	opened := s.mutant || s.rng.IntN(20) > 0 // else the end may come while the child opens the store
	if opened {
		wait = nil
	}
	select {
	case <-wait:
	case <-hung:
	case <-c.done:
	case <-c.begun:
		wait = time.After(time.Duration(s.rng.Int64N(int64(s.longest))))
		switch s.end {
		case full, thin:
			wait = time.After(2 * s.longest)
		case atCall:
			wait = time.After(8 * s.longest) // if it does not come to the call
		}
		select {
		case <-c.done:
		case <-hung:
		case <-wait:
		}
	}
	select {
	case <-c.done:
		ended, wrong := c.wait()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case wrong != nil:
			return nil, wrong
		case s.end == thin:
			return c.last, c.judge(true) // who cannot open a store on such a device ends
		case s.end == atCall && killed(ended):
			s.atCalls++
			return c.last, nil
		}
		return nil, violation("the child ended by itself: %w", errors.Join(ended, wrong))
	case <-hung:
		_, _ = c.kill()
		return nil, violation("the child has not opened its store in two minutes")
	default:
	}
	if s.end == cut {
		c.deafen() // a sync that races with the cut may answer falsely
		if err := s.medium.cut(); err != nil {
			_, _ = c.kill()
			return nil, err
		}
	}
	// What the child has found counts, though it was killed then. A lane that met an error of
	// the medium may have ended the child before the kill.
	_, wrong := c.kill()
	return c.last, errors.Join(wrong, c.judge(s.end == cut || s.end == thin))
}
