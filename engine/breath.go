package engine

import (
	"runtime"
	"time"

	"github.com/cleavestore/cleave/internal/alarm"
)

// Background work is done in small pieces, for callers to get their processors.
// After breathEvery items it lets others run that wait for its processor. That
// is not enough where there are as many busy goroutines as processors: the
// scheduler goes on with background work rather than take over callers that wait
// for another processor, or look at network connections and timers. So after
// workSlice it sleeps for a nap, in which its processor does all that. Naps become
// fewer from where write buffers are filled to hasteFrom, and none are taken from
// pressureFrom on: writers wait for what is being done then.
const (
	breathEvery = 64
	workSlice   = 500 * time.Microsecond
	nap         = 20 * time.Microsecond
	hasteFrom   = 0.70
)

// breather makes the pauses of a piece of background work. It is for one
// goroutine.
type breather struct {
	alarm  alarm.Alarm // nil before the first nap
	rested time.Time   // when the last one ended
}

// breathe lets others run, and says whether to go on: errMoved if the partition
// was dropped.
func (o *output) breathe() error {
	runtime.Gosched()
	if o.p.dropped.Load() {
		return errMoved
	}
	haste := o.p.db.filled(hasteFrom, pressureFrom)
	if now := time.Now(); float64(now.Sub(o.rested))*(1-haste) > float64(workSlice) {
		if o.alarm == nil {
			o.alarm = alarm.New()
		}
		o.alarm.Set(nap)
		o.alarm.Wait()
		o.rested = time.Now()
	}
	return o.ctx.Err()
}

// close gives back the alarm.
func (b *breather) close() {
	if b.alarm != nil {
		_ = b.alarm.Close()
	}
}
