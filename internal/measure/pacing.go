package measure

import "time"

// Pacing tells how an open loop was kept to its rate. It is zero for a closed
// one.
type Pacing struct {
	Rate   float64       // operations a second that were to be done
	Missed int64         // operations that were due and not begun before the loop gave up
	Lag    time.Duration // how late the clock wakes, as it was calibrated
	Spins  bool          // the clock takes a core
}

const (
	// tolerance is by what share the achieved rate may miss the offered one.
	tolerance = 0.01
	// trusted is what share of the response times the lag may be.
	trusted = 0.1
)

// Achieved is the rate of the operations that ended, in operations a second.
func (o *Outcome) Achieved() float64 {
	if o.Elapsed <= 0 {
		return 0
	}
	all := o.All()
	return float64(all.Ended()) / o.Elapsed.Seconds()
}

// Overloaded reports whether the operations of an open loop could not be done
// at its rate. Its response times say nothing then: they grow for as long as
// the loop lasts.
func (o *Outcome) Overloaded() bool {
	return o.Pacing.Rate > 0 && o.Achieved() < (1-tolerance)*o.Pacing.Rate
}

// Suspect reports whether the response times of an open loop may be those of its
// own clock: the lag at p99 is above a tenth of the response time at p99.
func (o *Outcome) Suspect() bool {
	all := o.All()
	return all.Response.Count() > 0 && all.Lag.Micros(99) > trusted*all.Response.Micros(99)
}
