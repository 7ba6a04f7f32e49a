package faults

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// judge gathers what clients have seen, and what of it is wrong.
type judge struct {
	mu         sync.Mutex
	begun      time.Time
	history    []porcupine.Operation
	checks     int
	violations []string
}

// check notes a check, and what it has found if that is wrong.
func (j *judge) check(ok bool, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.checks++; !ok {
		j.violations = append(j.violations, fmt.Sprintf(format, args...))
	}
}

func (j *judge) state() (checks, violations int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.checks, len(j.violations)
}

// now returns the time of the histories.
func (j *judge) now() int64 { return int64(time.Since(j.begun)) }

// register is an operation on a register.
type register struct {
	key   int
	write bool
	value int
}

// operation notes an operation on a register that has ended. One whose outcome is not known
// may have its effect at any time.
func (j *judge) operation(client int, in register, out int, call int64, known bool) {
	op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: math.MaxInt64}
	j.mu.Lock()
	defer j.mu.Unlock()
	if known {
		op.Return = j.now()
	}
	j.history = append(j.history, op)
}

var registerModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := make(map[int]int)
		for _, op := range history {
			k := op.Input.(register).key
			if _, found := at[k]; !found {
				at[k] = len(parts)
				parts = append(parts, nil)
			}
			parts[at[k]] = append(parts[at[k]], op)
		}
		return parts
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(register); in.write {
			return true, in.value
		}
		return state == output, state
	},
}

// registers judges the histories of the registers.
func (j *judge) registers(most time.Duration) {
	for _, part := range registerModel.Partition(j.history) {
		key := part[0].Input.(register).key
		switch porcupine.CheckOperationsTimeout(registerModel, part, most) {
		case porcupine.Ok:
			j.check(true, "")
		case porcupine.Illegal:
			j.check(false, "register %d: its %d operations are not linearizable", key, len(part))
		case porcupine.Unknown:
			j.check(false, "register %d: %d operations were not judged within %v", key, len(part), most)
		}
	}
}

// sequence is a row of items of a logical partition that one client makes, one after the other.
type sequence struct {
	mu    sync.Mutex
	tried int
	acked []bool
}

// begin returns the number of the next item.
func (s *sequence) begin() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried++
	s.acked = append(s.acked, false)
	return s.tried - 1
}

func (s *sequence) ack(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked[n] = true
}

// judge says what is wrong with items that a read has seen, in their order. It knows of all
// that were acknowledged, but a read need not see those of the end: only holes are wrong. After
// all has ended, nothing may be missing.
func (s *sequence) judge(seen []int, ended bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[int]bool, len(seen))
	last := -1
	for _, n := range seen {
		if n < 0 || n >= s.tried || there[n] {
			return fmt.Sprintf("item %d of %d was not tried, or is there twice", n, s.tried)
		}
		there[n], last = true, max(last, n)
	}
	if ended {
		last = s.tried - 1
	}
	for n := range last + 1 {
		if s.acked[n] && !there[n] {
			return fmt.Sprintf("item %d was acknowledged and is missing; the last one is %d", n, last)
		}
	}
	return ""
}

// level is a number that rises: what was begun and acknowledged, and when.
type level struct {
	mu    sync.Mutex
	begun int
	acked []moment
}

type moment struct {
	n  int
	at time.Time
}

func (l *level) begin() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	return l.begun
}

func (l *level) ack(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = append(l.acked, moment{n, time.Now()})
}

// least returns the newest number that was acknowledged until a time.
func (l *level) least(until time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.acked) - 1; i >= 0; i-- {
		if !l.acked[i].at.After(until) {
			return l.acked[i].n
		}
	}
	return 0
}

func (l *level) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}
