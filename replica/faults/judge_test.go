package faults

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSequence: a hole before what a read has seen is found, at the end also one behind it, and
// what was never tried.
func TestSequence(t *testing.T) {
	var s sequence
	for range 5 {
		s.begin()
	}
	for _, n := range []int{0, 1, 3, 4} {
		s.ack(n)
	}
	for _, c := range []struct {
		seen  []int
		ended bool
		wrong string
	}{
		{[]int{0, 1}, false, ""},
		{nil, false, ""},
		{[]int{0, 1, 2, 3, 4}, true, ""},
		{[]int{0, 1, 3, 4}, true, ""},
		{[]int{0, 3}, false, "item 1 "},
		{[]int{0, 1, 2, 3}, true, "item 4 "},
		{[]int{0, 1, 5}, false, "not tried"},
		{[]int{0, 1, 1}, false, "twice"},
	} {
		if got := s.judge(c.seen, c.ended); !strings.Contains(got, c.wrong) || (got == "") != (c.wrong == "") {
			t.Errorf("%v, %v: %q, want %q", c.seen, c.ended, got, c.wrong)
		}
	}
}

// TestRegisters: a read of what was overwritten before it began is found, one of a write whose
// outcome is not known is right before and behind.
func TestRegisters(t *testing.T) {
	for _, c := range []struct {
		what  string
		read  int
		known bool
		wrong int
	}{
		{"the newest", 2, true, 0}, {"an old one", 1, true, 1}, {"the newest or not", 2, false, 0}, {"an old one, the newest not known", 1, false, 0}, {"what was never written", 3, true, 1},
	} {
		j := &judge{begun: time.Now()}
		j.operation(1, register{7, true, 1}, 0, j.now(), true)
		j.operation(1, register{7, true, 2}, 0, j.now(), c.known)
		j.operation(2, register{key: 7}, c.read, j.now(), true)
		j.registers(time.Minute)
		if len(j.violations) != c.wrong || j.checks != 1 {
			t.Errorf("%s: %v of %d checks", c.what, j.violations, j.checks)
		}
	}
}

// TestLeast: what counts as seen is what was acknowledged until a time.
func TestLeast(t *testing.T) {
	var l level
	now := time.Now()
	l.acked = []moment{{1, now.Add(-3 * time.Second)}, {2, now.Add(-time.Second)}}
	for age, want := range map[time.Duration]int{0: 2, 2 * time.Second: 1, 4 * time.Second: 0} {
		if got := l.least(now.Add(-age)); got != want {
			t.Errorf("until %v ago: %d, want %d", age, got, want)
		}
	}
}

// TestCatchesUp: a node may be behind for a while, and may not answer; what it never comes to have is found, also
// where it stops answering.
func TestCatchesUp(t *testing.T) {
	old, want, err := []document{{"c", "counter", 1}}, []document{{"c", "counter", 2}}, errors.New("busy")
	type answer struct {
		docs []document
		err  error
	}
	for _, c := range []struct {
		what    string
		answers []answer // the last one stays
		ok      bool
	}{
		{"has it", []answer{{want, nil}}, true},
		{"is behind", []answer{{old, nil}, {nil, nil}, {nil, err}, {old, nil}, {want, nil}}, true},
		{"stays behind", []answer{{old, nil}}, false},
		{"has none", []answer{{nil, nil}}, false},
		{"is behind and does not answer", []answer{{old, nil}, {nil, err}}, false},
		{"does not answer", []answer{{nil, err}}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var last answer
			got, ok := catchesUp(want, func() ([]document, error) {
				last = c.answers[0]
				c.answers = c.answers[min(1, len(c.answers)-1):]
				return last.docs, last.err
			})
			if ok != c.ok || last.err == nil && len(got) != len(last.docs) {
				t.Errorf("a node that %s: %v, %v", c.what, got, ok)
			}
		})
	}
}
