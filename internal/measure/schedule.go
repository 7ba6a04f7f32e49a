package measure

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/alarm"
)

// schedule hands out the operations of an open loop: operation i is due i
// intervals after the start. Whichever worker is free takes the next one. Of the
// workers that are free one has its alarm set, for the next operation; it is on
// watch. When it wakes it sets the alarm of another one before it begins, so
// that the next operation is not late if this one takes long: nobody is woken for
// that. Workers that come free while operations are due take these at once.
type schedule struct {
	clock    *Clock
	start    time.Time
	interval float64 // nanoseconds
	limit    int64   // operations
	stop     atomic.Bool

	next     atomic.Int64 // operation
	spinning atomic.Bool  // a worker waits for the next operation in a loop

	// About the last alarm, counted from start. What was due before woke waited
	// for the clock. What it waited up to excused is not the store's fault: see
	// ticket.
	woke, excused atomic.Int64

	watched atomic.Bool  // there is a worker on watch; set with mu held
	idle    atomic.Int32 // len(free); set with mu held
	mu      sync.Mutex
	watcher *watch
	free    []*watch // workers that wait for their alarm to be set
}

// turnTime is how long a worker takes operations that are due, one after the
// other, before it lets those of others go on that wait for a processor. The
// scheduler would let them wait for a time slice of 10 ms.
const turnTime = 50 * time.Microsecond

// watch is what a worker waits with.
type watch struct {
	alarm.Alarm
	rested time.Duration // since when the worker has not let others run
	isSet  bool          // with mu of the schedule held
	due    time.Duration // for which it is set
	// operation is when the operation that it waits for is due: before due, where the alarm
	// was set late.
	operation time.Duration
}

// ticket is an operation that a worker may begin now.
type ticket struct {
	due time.Duration
	// from is when the response time begins: when the operation was due, or, if
	// the clock slept then, when it woke, but at the most as late as it usually
	// wakes.
	from time.Duration
	lag  time.Duration // how late the clock woke, 0 if it was not waited for
}

func newSchedule(c *Clock, rate float64, limit int64) *schedule {
	return &schedule{clock: c, start: time.Now(), interval: float64(time.Second) / rate, limit: limit}
}

func (s *schedule) newWatch() *watch { return &watch{Alarm: s.clock.newAlarm()} }

func (s *schedule) due(i int64) time.Duration { return time.Duration(float64(i) * s.interval) }

// dueBy returns how many operations are due within d.
func (s *schedule) dueBy(d time.Duration) int64 {
	return min(int64(math.Ceil(float64(d)/s.interval)), s.limit)
}

// behind returns how many operations are due and not begun.
func (s *schedule) behind() int64 { return max(s.dueBy(time.Since(s.start))-s.next.Load(), 0) }

func (s *schedule) over() bool { return s.stop.Load() || s.next.Load() >= s.limit }

// take waits until an operation is due that nobody else took. There is none
// when all are taken or the schedule was halted.
func (s *schedule) take(w *watch) (t ticket, ok bool) {
	for !s.over() {
		now := time.Since(s.start)
		if now-w.rested > turnTime {
			// Operations of others may have to go on.
			runtime.Gosched()
			now = time.Since(s.start)
			w.rested = now
		}
		if i, ok := s.claim(now); ok {
			s.handOver()
			return s.ticket(i), true
		}
		if d := s.due(s.next.Load()) - now; d <= s.clock.spinBelow && s.spinning.CompareAndSwap(false, true) {
			for d > 0 && time.Since(s.start) < now+d {
				runtime.Gosched() // the store comes first
			}
			s.spinning.Store(false)
			continue
		}
		s.sleep(w)
	}
	s.wakeAll()
	return ticket{}, false
}

// claim takes the next operation if it is due.
func (s *schedule) claim(now time.Duration) (i int64, ok bool) {
	for {
		i := s.next.Load()
		if i >= s.limit || s.due(i) > now || s.stop.Load() {
			return 0, false
		}
		if s.next.CompareAndSwap(i, i+1) {
			return i, true
		}
	}
}

func (s *schedule) ticket(i int64) ticket {
	due := s.due(i)
	return ticket{
		due:  due,
		from: max(due, time.Duration(s.excused.Load())),
		lag:  max(time.Duration(s.woke.Load())-due, 0),
	}
}

// sleep waits for the next operation if nobody does, else until that is up to w.
func (s *schedule) sleep(w *watch) {
	s.mu.Lock()
	if s.over() {
		s.mu.Unlock()
		return
	}
	if !s.watched.Load() {
		s.appointLocked(w, 0)
	} else {
		s.free = append(s.free, w)
		s.idle.Store(int32(len(s.free)))
	}
	s.mu.Unlock()
	for {
		w.Wait()
		now := time.Since(s.start)
		s.mu.Lock()
		if !w.isSet { // that was for something else
			s.mu.Unlock()
			continue
		}
		w.isSet = false
		if s.watcher == w {
			s.watcher = nil
			s.watched.Store(false)
			if now >= w.due {
				s.woke.Store(int64(now))
				// Not from due on: what waited before the alarm was set has not waited for
				// the clock.
				s.excused.Store(int64(min(now, w.operation+s.clock.lag)))
			}
		}
		s.mu.Unlock()
		return
	}
}

// handOver puts a free worker on watch if none is.
func (s *schedule) handOver() {
	if s.watched.Load() || s.idle.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 && !s.watched.Load() && !s.over() {
		w := s.free[n-1]
		s.free = s.free[:n-1]
		s.idle.Store(int32(n - 1))
		s.appointLocked(w, s.clock.spinBelow)
	}
}

// insurance is how soon a worker on watch wakes at the earliest if it is likely
// that it is not needed: that another one is back before and spins.
const insurance = 20 * time.Microsecond

// appointLocked puts w on watch. An operation that is due in less than soon is
// likely to be begun by another worker.
func (s *schedule) appointLocked(w *watch, soon time.Duration) {
	s.watcher = w
	s.watched.Store(true)
	now := time.Since(s.start)
	w.operation, w.isSet = s.due(s.next.Load()), true
	w.due = w.operation
	if w.due-now < soon {
		w.due = now + insurance
	}
	w.Set(w.due - now)
}

// wakeAll ends the waiting of all.
func (s *schedule) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watcher != nil {
		s.free = append(s.free, s.watcher)
	}
	for _, w := range s.free {
		w.isSet = true
		w.Set(0)
	}
	s.free, s.watcher = nil, nil
	s.idle.Store(0)
}

// halt ends the schedule early.
func (s *schedule) halt() {
	s.stop.Store(true)
	s.wakeAll()
}
