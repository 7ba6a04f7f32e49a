package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/workload"
)

// condition is a bound on a latency of one kind of operation: "read.p99<1ms".
type condition struct {
	text       string
	op         string // "all" or the name of an operation
	percentile string // "p50", "p99", "p99.9" or "max"
	above      bool   // the latency is to be above the limit, else below it
	limit      time.Duration
}

// conditions are a list of them as a flag: "read.p99<1ms,all.max<50ms".
type conditions []condition

// UnmarshalText reads a flag.
func (c *conditions) UnmarshalText(text []byte) error {
	*c = nil
	for part := range strings.SplitSeq(string(text), ",") {
		one, err := parseCondition(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		*c = append(*c, one)
	}
	return nil
}

// percentiles are those that results hold.
var percentiles = []string{"p50", "p99", "p99.9", "max"}

func parseCondition(text string) (condition, error) {
	bad := func(want string) (condition, error) {
		return condition{}, fmt.Errorf("%q: want %s, such as read.p99<1ms", text, want)
	}
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return bad("OPERATION.PERCENTILE<TIME")
	}
	c := condition{text: text, above: text[at] == '>'}
	var ok bool
	if c.op, c.percentile, ok = strings.Cut(text[:at], "."); !ok {
		return bad("OPERATION.PERCENTILE")
	}
	if c.percentile == "p999" {
		c.percentile = "p99.9"
	}
	if !slices.Contains(percentiles, c.percentile) {
		return bad("one of " + strings.Join(percentiles, ", "))
	}
	names := []string{allName}
	for op := range workload.NumOps {
		names = append(names, workload.Op(op).String())
	}
	if !slices.Contains(names, c.op) {
		return bad("one of " + strings.Join(names, ", "))
	}
	limit, err := time.ParseDuration(strings.TrimPrefix(text[at+1:], "="))
	if err != nil || limit <= 0 {
		return bad("a time above 0")
	}
	c.limit = limit
	return c, nil
}

// allName stands for the operations of all kinds.
const allName = "all"

// check refuses a condition on an operation that a workload has not.
func (c conditions) check(w workload.Workload) error {
	for _, one := range c {
		for op, share := range w.Mix {
			if share == 0 && workload.Op(op).String() == one.op {
				return harness.Usagef("%q: workload %s (%s) has no %s", one.text, w.Name, w.Mix, one.op)
			}
		}
	}
	return nil
}

// holds reports whether a result is as the condition says; one without such
// operations is not.
func (c *condition) holds(r *results) bool {
	f, ok := r.operation(c.op)
	if !ok || f.Ops == 0 {
		return false
	}
	limit := harness.Micros(c.limit)
	if c.above {
		return f.percentile(c.percentile) > limit
	}
	return f.percentile(c.percentile) < limit
}

// broken returns the conditions that do not hold.
func (c conditions) broken(r *results) (broken conditions) {
	for _, one := range c {
		if !one.holds(r) {
			broken = append(broken, one)
		}
	}
	return broken
}

// met returns the conditions that hold.
func (c conditions) met(r *results) (met conditions) {
	for _, one := range c {
		if one.holds(r) {
			met = append(met, one)
		}
	}
	return met
}

// String returns the form of the flag.
func (c conditions) String() string {
	var parts []string
	for _, one := range c {
		parts = append(parts, one.text)
	}
	return strings.Join(parts, ",")
}
