package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// end is how a child ends.
type end int

const (
	kill end = iota
	cut
	full // the disk is full for a while; then a kill
)

func (e end) String() string { return [...]string{"kill", "cut", "full, kill"}[e] }

// storeCycles is after how many cycles a new store is begun.
const storeCycles = 25

// series are cycles on one medium.
type series struct {
	medium  medium
	end     end
	mutant  bool
	setting setting
	rng     *rand.Rand

	seed         uint64
	models       models // of what the store holds
	cycles       int
	acknowledged int
	backups      int
	violations   []string
}

func newSeries(m medium, e end, st setting, seed uint64) *series {
	return &series{medium: m, end: e, setting: st, rng: rand.New(rand.NewPCG(seed, uint64(e)))}
}

// cycle starts a child, ends it and checks what it leaves.
func (s *series) cycle(ctx context.Context) error {
	dir := s.medium.dir()
	if s.cycles%storeCycles == 0 {
		if err := errors.Join(os.RemoveAll(dir), clearBeside(dir)); err != nil {
			return err
		}
		s.seed = s.rng.Uint64()
		s.models = newModels(s.setting.shape, s.seed)
	}
	s.cycles++
	buffered := s.rng.IntN(3) == 0
	least, err := s.life(ctx, buffered)
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
		if buffered && s.end == cut {
			least[i] = l.n // what the check before had read, it had made durable
		}
	}
	there, err := checkBackup(ctx, dir, s.setting.options, s.models, most)
	if there {
		s.backups++
	}
	if err == nil {
		err = withStore(ctx, dir, s.setting.options, func(db *engine.DB) error {
			if s.mutant {
				if err := takeOne(ctx, db); err != nil {
					return err
				}
			}
			is, err := checkStore(ctx, db, s.models, least, most)
			if err == nil {
				s.models = is
			}
			return err
		})
	}
	return s.violated(errors.Join(err, clearBeside(dir)))
}

// violated counts a violation, and begins a new store after it.
func (s *series) violated(err error) error {
	if isViolation(err) {
		s.violations = append(s.violations, fmt.Sprintf("cycle %d, seed %d: %v", s.cycles, s.seed, err))
		s.cycles += storeCycles - s.cycles%storeCycles
		return nil
	}
	return err
}

// life runs a child to its end and returns the last operation of each lane that
// it had acknowledged by then.
func (s *series) life(ctx context.Context, buffered bool) ([]int, error) {
	dir := s.medium.dir()
	t := task{Setting: s.setting.name, Dir: dir, Seed: s.seed, Buffered: buffered, At: s.models.at()}
	if s.end == full {
		t.Ballast = filepath.Join(filepath.Dir(dir), "ballast")
		if err := fill(t.Ballast, 3<<20); err != nil {
			return nil, err
		}
		defer os.Remove(t.Ballast)
	}
	c, err := startChild(ctx, t)
	if err != nil {
		return nil, err
	}
	deadline := time.AfterFunc(2*time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer deadline.Stop()
	line, err := c.listen(1 + s.rng.IntN(1500))
	switch {
	case err == io.EOF && ctx.Err() != nil:
		_ = c.wait()
		return nil, ctx.Err()
	case err == io.EOF:
		return nil, violation("the child ended by itself, or wrote nothing for two minutes: %w", c.wait())
	case err != nil || line != "":
		c.kill()
		return nil, errors.Join(err, fmt.Errorf("the child says %q", line))
	}
	if s.end == cut {
		err := s.medium.cut()
		c.kill() // what it says from the cut on may be false
		return c.last, err
	}
	_ = c.cmd.Process.Kill()
	for err == nil {
		_, err = c.listen(0)
	}
	_ = c.wait()
	return c.last, nil
}

// fill makes a file that leaves some bytes of its file system free.
func fill(name string, leave int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	var n int64
	for err == nil {
		_, err = f.Write(piece)
		n += int64(len(piece))
	}
	return f.Truncate(max(n-int64(len(piece))-leave, 0))
}
