package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cleavestore/cleave/replica/faults"
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

// TestNamespaces: the same in network namespaces, as the program itself, which starts itself again in
// them. All of its nodes have ended, and with them the namespaces.
func TestNamespaces(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes and breaks them")
	}
	if err := faults.Namespaces(); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "pfaults")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program, "-netns", "-time", "8s", "-seed", "3").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{`(?m)^fault .*notes$`, `seed 3: [1-9]\d* writes acknowledged, [1-9]\d* operations on registers, [1-9]\d* checks, 0 violations`, `node [1-4] is a blackhole`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}

// TestNamespacesNeeded: a process that has the network of the system makes no namespaces in it.
func TestNamespacesNeeded(t *testing.T) {
	_, err := faults.Run(t.Context(), faults.Config{Namespaces: true, Dir: t.TempDir()})
	if !errors.Is(err, faults.ErrNamespaces) {
		t.Errorf("%v", err)
	}
}
