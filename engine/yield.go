package engine

import (
	"runtime"
	"time"

	"github.com/cleavestore/cleave/internal/alarm"
)

// yielder makes an output pause, so that other work can run.
type yielder struct {
	pacer
	alarm    alarm.Alarm // nil before the first nap
	rewrites int         // for a rewrite: its debts.files
}

func (b *yielder) init() {
	b.now, b.yield, b.nap = time.Now, runtime.Gosched, b.sleep
}

// sleep takes a nap.
func (b *yielder) sleep() {
	if b.alarm == nil {
		b.alarm = alarm.New()
	}
	b.alarm.Set(nap)
	b.alarm.Wait()
}

// close gives back the alarm.
func (b *yielder) close() {
	if b.alarm != nil {
		_ = b.alarm.Close()
	}
}

// share returns the share of a processor that the output should get.
func (o *output) share() float64 {
	d := debts{files: o.rewrites}
	if o.merges {
		d.runs = o.p.version.Load().ages()
	} else {
		d.buffers = float64(o.p.db.pool.Used()) / float64(o.p.db.pool.Limit())
	}
	return d.share()
}

// breathe pauses the output, so that other work can run. It returns errMoved if the
// partition was dropped, the context's error if that has ended.
func (o *output) yield() error {
	o.pause(o.share())
	if o.p.dropped.Load() {
		return errMoved
	}
	return o.ctx.Err()
}
