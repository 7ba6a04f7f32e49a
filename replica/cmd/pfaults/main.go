// Command pfaults runs three nodes as processes, breaks them by a schedule that a seed decides,
// and judges what clients have seen meanwhile. Package faults says how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/replica/faults"
)

func main() {
	if err := run(cli.Interruptible(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "pfaults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("pfaults", flag.ContinueOnError)
	f.SetOutput(stderr)
	seed := f.Uint64("seed", 1, "what decides the schedule of the first run")
	runs := f.Int("runs", 1, "how many runs, each with the next seed")
	length := f.Duration("time", time.Minute, "how long faults happen in a run")
	pnode := f.String("pnode", "", "program of the nodes; default: it is built")
	flip := f.Bool("flip", true, "bits of one node flip in the end")
	netns := f.Bool("netns", false, "each node has a network namespace of its own; only for root on Linux")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *netns {
		if err := faults.Namespaces(); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "pfaults")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *pnode == "" {
		*pnode = filepath.Join(dir, "pnode")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", *pnode, "github.com/cleavestore/cleave/replica/cmd/pnode").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	if *netns && !faults.Isolated() {
		var failed error
		for i := range *runs { // each has its own namespaces
			its := []string{"-netns", "-seed", fmt.Sprint(*seed + uint64(i)), "-time", length.String(), "-pnode", *pnode, fmt.Sprintf("-flip=%v", *flip)}
			failed = errors.Join(failed, faults.Isolate(ctx, dir, its, stdout, stderr))
		}
		return failed
	}
	bad := 0
	for i := range *runs {
		r, err := faults.Run(ctx, faults.Config{
			Pnode: *pnode, Dir: filepath.Join(dir, fmt.Sprint("run", i)), Seed: *seed + uint64(i), Time: *length, Flip: *flip, Log: stderr, Namespaces: *netns,
		})
		r.Print(stdout)
		if err != nil {
			return fmt.Errorf("seed %d: %w", r.Seed, err)
		}
		bad += len(r.Violations)
	}
	if bad > 0 {
		return errors.New("what clients have seen is wrong")
	}
	return nil
}
