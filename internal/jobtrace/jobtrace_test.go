package jobtrace

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"sync/atomic"
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

// tests counts the runs of TestLabels.
var tests atomic.Uint32

// TestLabels: the labels are on the goroutine, and on those that it starts, from Start to
// End, and the caller's labels come back.
func TestLabels(t *testing.T) {
	number := tests.Add(1) // a goroutine of an earlier run may not have ended
	labels := fmt.Sprintf(`"container":"tests", "job":"flush", "partition":"%d"`, number)
	pprof.Do(context.Background(), pprof.Labels("caller", "here"), func(ctx context.Context) {
		j := Job{Name: "flush", Container: "tests", Partition: number}
		j.End() // not started
		if strings.Contains(profile(t), labels) {
			t.Error("the labels are there before Start")
		}
		within := j.Start(ctx)
		j.Start(ctx)
		if value, _ := pprof.Label(within, "job"); value != "flush" || !strings.Contains(profile(t), labels) {
			t.Errorf("the labels are not there:\n%s", profile(t))
		}
		started, done := make(chan struct{}), make(chan struct{})
		go func() {
			close(started)
			<-done
		}()
		<-started
		if p := profile(t); strings.Count(p, labels) != 2 {
			t.Errorf("not both goroutines of the work have labels:\n%s", p)
		}
		j.End()
		// The goroutine that the work has started keeps them.
		if p := profile(t); strings.Count(p, labels) != 1 || !strings.Contains(p, `"caller":"here"}`) {
			t.Errorf("after End:\n%s", p)
		}
		close(done)
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
