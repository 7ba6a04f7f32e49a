package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a child process of TestUlimit is told: the directory, the limit of open files,
// partitions, and runs of each.
const ulimitEnv = "CLEAVE_TEST_ULIMIT"

// TestUlimit makes a store of many partitions and files in a process that may have a few
// files open, and opens it again there. With -full it has 4,096 partitions of 8 runs.
func TestUlimit(t *testing.T) {
	if spec := os.Getenv(ulimitEnv); spec != "" {
		var dir string
		var limit uint64
		var partitions, runs int
		if _, err := fmt.Sscan(spec, &dir, &limit, &partitions, &runs); err != nil {
			t.Fatal(err)
		}
		ulimited(t, dir, limit, partitions, runs)
		return
	}
	cases := []string{"64 100 3", "24 20 3"} // limit, partitions, runs
	if *fullFlag {
		cases = append(cases, "1024 4096 8")
	}
	for _, spec := range cases {
		cmd := exec.Command(os.Args[0], "-test.run=^TestUlimit$", "-test.v", "-test.timeout=1h")
		cmd.Env = append(os.Environ(), ulimitEnv+"="+t.TempDir()+" "+spec)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", spec, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "partitions") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

// ulimited is the child process.
func ulimited(t *testing.T, dir string, limit uint64, partitions, runs int) {
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}))
	ctx := context.Background()
	opts := &Options{manual: true, Durability: Buffered}
	begun := time.Now()
	db, err := Open(ctx, dir, opts)
	must(t, err)
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: partitions})
	must(t, err)
	docs := partitions * 6
	body := func(i, run int) []byte { return fmt.Appendf(nil, `{"id":"%d","k":"%d","run":%d}`, i, i, run) }
	for run := range runs {
		for i := range docs {
			_, err := c.Upsert(ctx, body(i, run), nil)
			must(t, err)
		}
		must(t, db.Flush(ctx))
	}
	must(t, db.Close())
	made := time.Since(begun)

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begun = time.Now()
	opts.manual = false
	db, err = Open(ctx, dir, opts)
	must(t, err)
	opened := time.Since(begun)
	files := 0
	for _, p := range db.partitions() {
		files += int(p.stats().Files)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	c, err = db.Container("c")
	must(t, err)
	begun = time.Now()
	for i := range docs {
		it, err := c.Read(ctx, StringKey(fmt.Sprint(i)), fmt.Sprint(i))
		must(t, err)
		if want := string(body(i, runs-1)); string(it.Body) != want {
			t.Fatalf("%s, want %s", it.Body, want)
		}
	}
	read := time.Since(begun)
	n := 0
	for _, err := range c.ScanAll(ctx, nil) {
		must(t, err)
		n++
	}
	if n != docs {
		t.Errorf("a scan finds %d documents, want %d", n, docs)
	}
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	s := db.Stats()
	fmt.Printf("%d partitions, %d files, limit %d: made in %v, opened in %v with %d bytes of heap a file, %d reads in %v; %d descriptors, %d of segment files (%d opened again), %d mapped (%d again)\n",
		len(c.Partitions()), files, limit, made.Round(time.Millisecond), opened.Round(time.Millisecond), (int64(after.HeapAlloc)-int64(before.HeapAlloc))/int64(files),
		docs, read.Round(time.Millisecond), len(names)-1, s.OpenFiles, s.ReopenedFiles, s.MappedFiles, s.RemappedFiles)
	_, err = c.Upsert(ctx, body(0, runs), nil)
	must(t, err)
	must(t, db.Flush(ctx))
	must(t, db.Close())
}
