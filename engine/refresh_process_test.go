package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// besideEnv tells a child process of TestRefreshBesideProcess in which store it writes.
const besideEnv = "CLEAVE_TEST_BESIDE"

// TestRefreshBesideProcess reads a store read-only while another process writes to it, and at
// last kills that. Each round of the writer is one batch of two items. The reader refreshes
// when it hears of a round, while the writer goes on: it then sees that round or a newer one,
// and never half of one.
func TestRefreshBesideProcess(t *testing.T) {
	if dir := os.Getenv(besideEnv); dir != "" {
		writeBeside(dir)
		return
	}
	ctx := t.Context()
	dir := t.TempDir()
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRefreshBesideProcess$")
	cmd.Env = append(os.Environ(), besideEnv+"="+dir)
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	rounds := bufio.NewReader(out)
	// heard returns the next round that the writer says is durable.
	heard := func() (round int) {
		line, err := rounds.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscan(line, &round)
		}
		if err != nil {
			t.Fatalf("the writer said %q: %v\n%s", line, err, &stderr)
		}
		return round
	}
	grant := func(rounds int) {
		_, err := io.WriteString(in, strings.Repeat("\n", rounds))
		must(t, err)
	}
	grant(1)
	first := heard()
	db, err := Open(ctx, dir, &Options{ReadOnly: true})
	must(t, err)
	defer db.Close()
	c, err := db.Container("c")
	must(t, err)
	last := first
	look := func(least int) {
		t.Helper()
		must(t, db.Refresh(ctx))
		var seen []string
		for it, err := range c.Scan(ctx, StringKey("a"), IDRange{}, nil) {
			must(t, err)
			_, n, _ := strings.Cut(string(it.Body), `"n":`)
			seen = append(seen, n)
		}
		var round int
		if len(seen) != 2 || seen[0] != seen[1] || second(fmt.Sscanf(seen[0], "%d}", &round)) != nil {
			t.Fatalf("after round %d: %v", least, seen)
		}
		if round < least || round < last {
			t.Fatalf("round %d after round %d was durable and %d was seen", round, least, last)
		}
		last = round
	}
	const ahead = 20 // rounds that the writer may be ahead of the reader
	grant(ahead)
	for range amount(300, 120, 60) {
		round := heard()
		grant(1)
		look(round)
	}
	parts := len(c.Partitions())
	must(t, cmd.Process.Kill())
	told := last
	for {
		line, err := rounds.ReadString('\n')
		if err != nil {
			break // a line cut off was never said
		}
		must(t, second(fmt.Sscan(line, &told)))
	}
	if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		t.Errorf("the writer ended by itself: %v\n%s", err, &stderr)
	}
	look(told)
	if parts < 2 {
		t.Errorf("%d partitions: the writer split nothing that the reader saw", parts)
	}
	for f, err := range db.Verify(ctx) {
		t.Errorf("%v, %v", f, err)
	}
}

// writeBeside writes a round for each line that it is given, and says when it is durable. In
// between it flushes, compacts and splits.
func writeBeside(dir string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	db, err := Open(ctx, dir, &Options{MemoryBudget: minMemoryBudget, LogFileBytes: minLogFileBytes, LogBytes: 8 * minLogFileBytes, FileBytes: 32 << 10})
	fail(err)
	c, err := db.CreateContainer(ctx, "c", byK)
	fail(err)
	granted := bufio.NewReader(os.Stdin)
	for round := 1; ; round++ {
		_, err := granted.ReadByte()
		fail(err)
		b := c.NewBatch(StringKey("a"))
		fail(errors.Join(b.Upsert(doc("x", "a", round), nil), b.Upsert(doc("y", "a", round), nil)))
		fail(second(c.Commit(ctx, b)))
		fail(second(c.Upsert(ctx, smallDocument(fmt.Sprint(round), fmt.Sprint(round), 2000), nil)))
		fmt.Println(round)
		switch {
		case round%7 == 3:
			fail(db.Flush(ctx))
		case round%20 == 10:
			fail(db.Compact(ctx))
		case round == 15:
			job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
			fail(err)
			fail(job.Wait(ctx))
		}
	}
}
