package engine

import (
	"context"
	"runtime"
	"time"

	"github.com/cleavestore/cleave/internal/alarm"
)

// Background work is done in small pieces, for callers to get their processors.
// After breathEvery items it lets others run that wait for its processor. That
// is not enough where there are as many busy goroutines as processors: the
// scheduler goes on with background work rather than take over callers that wait
// for another processor, or look at network connections and timers. So after
// workSlice it sleeps for a nap, in which its processor does all that.
const (
	breathEvery = 64
	workSlice   = 500 * time.Microsecond
	nap         = 20 * time.Microsecond
)

// breather makes the pauses of a piece of background work. It is for one
// goroutine.
type breather struct {
	alarm  alarm.Alarm // nil before the first nap
	rested time.Time   // when the last one ended
}

// breathe lets others run, and says whether to go on: errMoved if the partition
// was dropped. Where flushes are behind there are no naps: writers wait for what
// is being done here.
func (o *output) breathe(ctx context.Context) error {
	runtime.Gosched()
	if o.p.dropped.Load() {
		return errMoved
	}
	if now := time.Now(); now.Sub(o.rested) > workSlice && o.p.db.fullness() == 0 {
		if o.alarm == nil {
			o.alarm = alarm.New()
		}
		o.alarm.Set(nap)
		o.alarm.Wait()
		o.rested = time.Now()
	}
	return ctx.Err()
}

// close gives back the alarm.
func (b *breather) close() {
	if b.alarm != nil {
		_ = b.alarm.Close()
	}
}
