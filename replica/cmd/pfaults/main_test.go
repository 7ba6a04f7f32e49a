package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"
)

// TestFaults: a short run, of real processes, finds nothing, and has judged something. What it
// judges does not depend on how fast the machine is.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes and breaks them")
	}
	var out, errs bytes.Buffer
	if err := run(context.Background(), []string{"-time", "6s", "-seed", "3"}, &out, &errs); err != nil {
		t.Fatalf("%v: %s%s", err, &out, &errs)
	}
	for _, want := range []string{`(?m)^fault .*notes$`, `seed 3: [1-9]\d* writes acknowledged, [1-9]\d* operations on registers, [1-9]\d* checks, 0 violations`, `bits of node [1-3] flip`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s is not in %s", want, &out)
		}
	}
}
