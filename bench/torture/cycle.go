package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// end is how a child ends.
type end int

const (
	kill end = iota
	cut
	full // the disk is full for a while; then a kill
)

func (e end) String() string { return [...]string{"kill", "cut", "full, kill"}[e] }

// storeCycles is after how many cycles a new store is begun: the model of a lane
// is drawn from its first operation on.
const storeCycles = 25

// series are cycles on one medium.
type series struct {
	medium medium
	end    end
	mutant bool
	rng    *rand.Rand

	seed         uint64
	at           []int // operations of each lane that the store has
	cycles       int
	acknowledged int
	backups      int
	violations   []string
}

func newSeries(m medium, e end, seed uint64) *series {
	return &series{medium: m, end: e, rng: rand.New(rand.NewPCG(seed, uint64(e)))}
}

// cycle starts a child, ends it and checks what it leaves.
func (s *series) cycle(ctx context.Context) error {
	dir := s.medium.dir()
	if s.cycles%storeCycles == 0 {
		if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+".checkpoint"), os.RemoveAll(dir+".backup.tmp")); err != nil {
			return err
		}
		s.seed, s.at = s.rng.Uint64(), make([]int, lanes)
	}
	s.cycles++
	buffered := s.rng.IntN(3) == 0
	acknowledged, err := s.child(ctx, buffered)
	if err != nil {
		return s.violated(err)
	}
	if err := s.medium.again(); err != nil {
		return err
	}
	if s.mutant {
		if err := takeOne(ctx, dir); err != nil {
			return err
		}
	}
	least, most := make([]int, lanes), make([]int, lanes)
	for i := range lanes {
		s.acknowledged += max(acknowledged[i]-s.at[i], 0)
		most[i] = max(acknowledged[i], s.at[i]) + 1
		if least[i] = max(acknowledged[i], s.at[i]); buffered && s.end == cut {
			least[i] = s.at[i] // what the check before had read, it had made durable
		}
	}
	if s.end == cut {
		for i := range most {
			most[i] += 1000 // the cut was not told of the last acknowledgements
		}
	}
	there, err := checkBackup(ctx, dir, s.seed, most)
	if err == nil {
		if there {
			s.backups++
		}
		s.at, err = checkStore(ctx, dir, s.seed, least, most)
	}
	_ = os.RemoveAll(dir + ".checkpoint")
	return s.violated(err)
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

// child runs a child to its end and returns the last operation of each lane that
// it had acknowledged by then.
func (s *series) child(ctx context.Context, buffered bool) ([]int, error) {
	dir := s.medium.dir()
	args := []string{"victim", dir, strconv.FormatUint(s.seed, 10), strconv.FormatBool(buffered), ""}
	if s.end == full {
		args[4] = filepath.Join(filepath.Dir(dir), "ballast")
		if err := fill(args[4], 3<<20); err != nil {
			return nil, err
		}
		defer os.Remove(args[4])
	}
	for _, n := range s.at {
		args = append(args, strconv.Itoa(n))
	}
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), victimEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	after := 1 + s.rng.IntN(1500)
	last := append([]int(nil), s.at...)
	deadline := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer deadline.Stop()
	r := bufio.NewReader(out)
	ended := false
	for lines := 0; ; lines++ {
		if lines == after {
			ended = true
			if s.end == cut {
				if err := s.medium.cut(); err != nil {
					_ = cmd.Process.Kill()
					return nil, errors.Join(err, cmd.Wait())
				}
			}
			_ = cmd.Process.Kill()
			if s.end == cut {
				break // what is said from here on may be false
			}
		}
		line, err := r.ReadString('\n')
		if err != nil {
			break // a line cut off was never said
		}
		var number, n int
		if _, err := fmt.Sscan(line, &number, &n); err != nil || number < 0 || number >= lanes {
			_ = cmd.Process.Kill()
			return nil, errors.Join(fmt.Errorf("the child says %q", line), cmd.Wait())
		}
		last[number] = max(last[number], n)
	}
	_, _ = io.Copy(io.Discard, r)
	err = cmd.Wait()
	if !ended {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, violation("the child ended by itself, or wrote nothing for two minutes: %v\n%s", err, stderr.String())
	}
	return last, nil
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
