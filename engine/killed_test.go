package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// What a child process of TestKilled is told: the store that it writes to, and
// whether its writes are buffered.
const (
	victimEnv   = "CLEAVE_TEST_VICTIM"
	bufferedEnv = "CLEAVE_TEST_BUFFERED"
)

const victimWriters = 4

// TestKilled kills a process in the middle of synced writes or of buffered ones,
// again and again, and finds in the store everything that the process had said
// is acknowledged.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
		return
	}
	kills := amount(50, 20, 5)
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	dir := t.TempDir()
	acknowledged := make(map[string]int) // writer: highest number
	total := 0
	for kill := range kills {
		buffered, after := kill%2 == 1, 5+rng.IntN(60)
		if buffered {
			after += rng.IntN(2000) // some log files
		}
		lines := runVictim(t, dir, after, buffered)
		total += len(lines)
		for _, line := range lines {
			var writer string
			var n int
			if _, err := fmt.Sscan(line, &writer, &n); err != nil {
				t.Fatalf("victim said %q", line)
			}
			acknowledged[writer] = max(acknowledged[writer], n)
		}
		checkVictim(t, dir, kill, acknowledged)
	}
	if total < kills {
		t.Errorf("%d writes acknowledged over %d kills: the test reached too little", total, kills)
	}
}

// runVictim starts a process that writes to the store, kills it after it has
// acknowledged a number of writes, and returns what it said.
func runVictim(t *testing.T, dir string, after int, buffered bool) (lines []string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), victimEnv+"="+dir)
	if buffered {
		cmd.Env = append(cmd.Env, bufferedEnv+"=yes")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break // a line cut off was never said
		}
		lines = append(lines, line)
		if len(lines) == after {
			cmd.Process.Kill()
		}
	}
	err = cmd.Wait()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || len(lines) < after {
		t.Fatalf("victim ended by itself: %v\n%s", err, stderr.String())
	}
	return lines
}

func victimOptions() *Options {
	return &Options{MemoryBudget: minMemoryBudget, LogFileBytes: 256 << 10, LogBytes: 2 << 20, memtableBytes: 128 << 10}
}

func victimDocument(writer string, n int) string {
	return fmt.Sprintf(`{"id":"%06d","writer":%q,"text":%q}`, n, writer, strings.Repeat(writer, 1+n%400))
}

// victim writes until it is killed. Each acknowledged write is told on
// standard output, after the fact.
func victim(dir string) {
	ctx := context.Background()
	opts := victimOptions()
	buffered := os.Getenv(bufferedEnv) != ""
	if buffered {
		opts.Durability = Buffered
	}
	db, err := Open(ctx, dir, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	c, err := db.Container("c")
	if errors.Is(err, ErrNoContainer) {
		c, err = db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/writer"}, MinPartitions: 3})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var mu sync.Mutex
	say := func(writer string, n int) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s %d\n", writer, n)
	}
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var wg sync.WaitGroup
	for i := range victimWriters {
		writer := fmt.Sprintf("w%d", i)
		wg.Go(func() {
			for n := nextNumber(c, writer); ; n++ {
				if _, err := c.Upsert(ctx, []byte(victimDocument(writer, n)), nil); err != nil {
					fail(err)
				}
				say(writer, n)
			}
		})
	}
	wg.Go(func() { fail(replacePartitions(c)) })
	if buffered {
		wg.Wait()
	}
	wg.Go(func() {
		const writer = "load"
		first := nextNumber(c, writer)
		_, err := c.Load(ctx, func(yield func([]byte, error) bool) {
			for n := first; yield([]byte(victimDocument(writer, n)), nil); n++ {
			}
		}, &LoadOptions{BatchBytes: 8 << 10, Progress: func(s LoadStats) { say(writer, first+int(s.Committed)-1) }})
		fail(err)
	})
	wg.Wait()
}

// replacePartitions splits, merges and moves partitions until something fails.
func replacePartitions(c *Container) error {
	ctx := context.Background()
	for {
		parts := c.Partitions()
		var job *ReshapeJob
		var err error
		switch i := rand.IntN(len(parts)); {
		case i+1 == len(parts) || len(parts) < 3:
			job, err = c.Split(ctx, parts[i].ID, nil)
		case rand.IntN(2) == 0:
			job, err = c.MoveBoundary(ctx, parts[i].ID, parts[i+1].ID, "")
		default:
			job, err = c.Merge(ctx, parts[i].ID, parts[i+1].ID)
		}
		if err == nil {
			err = job.Wait(ctx)
		}
		if err != nil && !errors.Is(err, ErrRefused) {
			return err
		}
	}
}

// nextNumber returns the number after the highest that a writer has stored.
func nextNumber(c *Container, writer string) int {
	n := 0
	for it, err := range c.Scan(context.Background(), StringKey(writer), IDRange{}, &ScanOptions{Reverse: true, Limit: 1}) {
		if err == nil {
			fmt.Sscan(it.ID, &n)
			n++
		}
	}
	return n
}

func checkVictim(t *testing.T, dir string, kill int, acknowledged map[string]int) {
	t.Helper()
	ctx := context.Background()
	db, err := Open(ctx, dir, victimOptions())
	if err != nil {
		t.Fatalf("kill %d: %v", kill, err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Fatalf("kill %d: close: %v", kill, err)
		}
	}()
	c, err := db.Container("c")
	if err != nil {
		t.Fatalf("kill %d: %v", kill, err)
	}
	for writer, last := range acknowledged {
		n := 0
		for it, err := range c.Scan(ctx, StringKey(writer), IDRange{}, nil) {
			if err != nil {
				t.Fatalf("kill %d: %v", kill, err)
			}
			if want := victimDocument(writer, n); string(it.Body) != want {
				t.Fatalf("kill %d: writer %s, document %d is %s %.80q", kill, writer, n, it.ID, it.Body)
			}
			n++
		}
		if n <= last {
			t.Fatalf("kill %d: writer %s: %d documents, %d were acknowledged", kill, writer, n, last+1)
		}
		acknowledged[writer] = n - 1 // what survived is durable now
	}
	if kill%10 == 0 {
		checkVerified(t, db)
	}
}
