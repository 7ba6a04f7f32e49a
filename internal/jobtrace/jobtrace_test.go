package jobtrace

import (
	"bytes"
	"context"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"testing"
)

// profile returns the profile of all goroutines, with their labels.
func profile(t *testing.T) string {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLabels: the labels are on the goroutine, and on those that it starts, from Start to
// End, and the caller's labels come back.
func TestLabels(t *testing.T) {
	const labels = `"container":"tests", "job":"flush", "partition":"7"`
	pprof.Do(context.Background(), pprof.Labels("caller", "here"), func(ctx context.Context) {
		j := Job{Name: "flush", Container: "tests", Partition: 7}
		j.End() // not started
		if strings.Contains(profile(t), labels) {
			t.Error("the labels are there before Start")
		}
		within := j.Start(ctx)
		j.Start(ctx)
		if value, _ := pprof.Label(within, "job"); value != "flush" || !strings.Contains(profile(t), labels) {
			t.Errorf("the labels are not there:\n%s", profile(t))
		}
		started := make(chan string)
		go func() { started <- profile(t) }()
		if n := strings.Count(<-started, labels); n == 0 {
			t.Error("a goroutine of the work has no labels")
		}
		j.End()
		if p := profile(t); strings.Contains(p, labels) || !strings.Contains(p, `"caller":"here"`) {
			t.Errorf("after End:\n%s", p)
		}
	})
}

// TestTask: a trace has the task and what it is about.
func TestTask(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skip(err) // the tests themselves are traced
	}
	j := Job{Name: "compaction", Container: "tests", Partition: 12345}
	j.Start(context.Background())
	j.End()
	trace.Stop()
	for _, want := range []string{"cleave.compaction", "tests", "12345"} {
		if !bytes.Contains(b.Bytes(), []byte(want)) {
			t.Errorf("the trace does not have %q", want)
		}
	}
}
