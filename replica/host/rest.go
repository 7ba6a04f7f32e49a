package host

// A replica that has nothing to do is left alone between ticks. The host counts ticks for all, and a replica
// is told of those that have passed when something comes for it, before that, so what it does then is the same
// as if it had been told of each. If nothing comes, it is woken when a tick may change something:
//
//   - One that leads, when it has to send heartbeats.
//   - One that follows, when it has heard of no leader for followTicks. Heartbeats come more often, so in a
//     quiet group that does not happen. From then on it is told of each tick, long before it would ask to be elected.
//   - Any other, one with reads, entries or a handover under way: at each tick.
const (
	// followTicks is how long a replica that follows is left alone after it has heard of its leader.
	followTicks = heartbeatTicks + 2
	// mostTicks is how many ticks a replica is told of at once, beside those for which it was left alone: of a
	// process that has no time for its groups the clock does not race.
	mostTicks = 2
)

// passTicks tells the group of the ticks that have passed, and returns whether there were any.
func (r *replica) passTicks() bool {
	now := r.h.ticks.Load()
	passed := now != r.told
	for range min(now-r.told, r.rested+mostTicks-1) {
		r.passTick()
	}
	r.told = now
	return passed
}

// rest says when the replica is to be woken if nothing comes. It is called after publish.
func (r *replica) rest() {
	r.rested = r.quietTicks()
	r.due.Store(r.told + r.rested)
}

// quietTicks returns after how many ticks the replica has to be told of them.
func (r *replica) quietTicks() int64 {
	switch {
	case r.g == nil, len(r.applies)+len(r.reads.round)+len(r.reads.waiting)+len(r.parked) > 0, r.orphan > 0, r.succeeds > 0, r.hand != nil, r.g.HandingOver():
		return 1
	case r.status.leading.Load():
		return int64(heartbeatTicks - r.led%heartbeatTicks)
	case r.status.leader.Load() == 0:
		return 1
	}
	return int64(max(followTicks-r.idle, 1))
}
