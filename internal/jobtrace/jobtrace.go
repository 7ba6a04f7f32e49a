// Package jobtrace makes background work visible to profilers: CPU and goroutine profiles
// get the labels job, container and partition, and a trace of package runtime/trace gets a
// task. Goroutines that the work starts have the labels too.
package jobtrace

import (
	"context"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
)

// Job is a piece of background work. It serves one goroutine.
type Job struct {
	Name      string // "flush", "compaction" and so on
	Container string
	Partition uint32 // 0: none

	ctx  context.Context // as the work got it
	task *trace.Task     // nil: no trace was being written
}

// Start labels the goroutine, unless it has done so. It returns the context of the work.
func (j *Job) Start(ctx context.Context) context.Context {
	if j.ctx != nil {
		return ctx
	}
	j.ctx = ctx
	partition := ""
	if j.Partition != 0 {
		partition = strconv.FormatUint(uint64(j.Partition), 10)
	}
	if trace.IsEnabled() {
		ctx, j.task = trace.NewTask(ctx, "cleave."+j.Name)
		trace.Log(ctx, "container", j.Container)
		trace.Log(ctx, "partition", partition)
	}
	ctx = pprof.WithLabels(ctx, pprof.Labels("job", j.Name, "container", j.Container, "partition", partition))
	pprof.SetGoroutineLabels(ctx)
	return ctx
}

// End gives the goroutine the labels of the context that Start was given, as pprof.Do
// does. It does nothing if there was no Start.
func (j *Job) End() {
	if j.ctx == nil {
		return
	}
	pprof.SetGoroutineLabels(j.ctx)
	if j.task != nil {
		j.task.End()
	}
	j.ctx, j.task = nil, nil
}
