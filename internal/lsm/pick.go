package lsm

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/tiers"
)

// Picker chooses which of some neighbouring runs to compact; an empty plan: none. last
// says that the partition has no older runs.
type Picker func(runs []*Run, last bool) (tiers.Plan, error)

// PickDead chooses all runs if something in them is dead.
func (t *Tree) PickDead(ctx context.Context) Picker {
	return func(runs []*Run, last bool) (tiers.Plan, error) {
		if t.deadIn(runs, last) > 0 {
			return tiers.Plan{First: 0, End: len(runs)}, nil
		}
		found, err := t.overwrites(ctx, runs)
		if err != nil && err != ErrMoved {
			return tiers.Plan{}, fmt.Errorf("compact partition %d: %w", t.ID, err)
		} else if found {
			return tiers.Plan{First: 0, End: len(runs)}, nil
		}
		return tiers.Plan{}, nil
	}
}

// PickFew chooses such that as few runs are left as are worth it: one or two, and two if there is
// not much room.
func (t *Tree) PickFew(runs []*Run, _ bool) (tiers.Plan, error) {
	return tiers.Fewest(sizesOf(runs), t.roomFor(runs)), nil
}

// roomFor says whether the disk has room for twice the size of runs, and counts it as taken.
func (t *Tree) roomFor(runs []*Run) bool {
	free, taken, err := t.takeRoom(bytesOf(runs))
	if err == nil && free/2 >= taken {
		return true
	}
	t.giveRoom(bytesOf(runs))
	return false
}

// needRoom counts room as taken for files of about so many bytes. If the disk has less it returns an error that matches
// fault.ErrDiskFull: files that cannot be finished would take the last of it from writers.
func (t *Tree) needRoom(size int64) error {
	free, taken, err := t.takeRoom(size)
	if err == nil && free < taken {
		t.giveRoom(size)
		return fmt.Errorf("%w: it writes about %d bytes, others %d, and there is room for %d", fault.ErrDiskFull, size, taken-uint64(size), free)
	}
	return nil
}

// takeRoom counts room as taken by work in the partition, and returns the free space of the disk and what is counted of
// all partitions. Compacting is held.
func (t *Tree) takeRoom(size int64) (free, taken uint64, err error) {
	t.room += size
	taken = uint64(t.Env.room.Add(size))
	free, err = t.Env.FS.Free()
	return free, taken, err
}

// giveRoom takes back what takeRoom has counted.
func (t *Tree) giveRoom(size int64) {
	t.room -= size
	t.Env.room.Add(-size)
}

// toWrite estimates what a compaction of neighbouring runs writes, in bytes. last is as in deadIn.
func (t *Tree) toWrite(runs []*Run, last bool) int64 {
	size, items := bytesOf(runs), int64(0)
	for _, r := range runs {
		items += r.Items()
	}
	return int64(float64(size) * (1 - min(1, t.deadIn(runs, last)/max(1, float64(items)))))
}

// PickTiers chooses all runs if much of them is dead, else runs of one tier. It prefers the tier if the disk has no room
// for all.
func (t *Tree) PickTiers(runs []*Run, last bool) (tiers.Plan, error) {
	if len(runs) == 0 {
		return tiers.Plan{}, nil
	}
	plan := tiers.Pick(sizesOf(runs))
	if t.wasteful(runs, last) {
		free, err := t.Env.FS.Free()
		if plan.Len() == 0 || err != nil || free >= uint64(t.Env.room.Load()+t.toWrite(runs, last)) {
			return tiers.Plan{First: 0, End: len(runs)}, nil
		}
	}
	return plan, nil
}

// PickDue is the picker of background compactions: it chooses as PickTiers, else, among all runs of the
// partition, those that scans have sought in often, if the disk has room for twice their size. The
// seeks are used up then in any case: what fails is not tried again for them.
func (t *Tree) PickDue(runs []*Run, last bool) (tiers.Plan, error) {
	plan, err := t.PickTiers(runs, last)
	if err != nil || plan.Len() > 0 || len(runs) < len(t.Version.Load().Runs) {
		return plan, err
	}
	if plan = t.seeks.Use(sizesOf(runs), t.Env.CompactionRate.PerSecond()); plan.Len() == 0 {
		return plan, nil
	}
	if !t.roomFor(runs[:plan.End]) {
		return tiers.Plan{}, nil // writes need the room more, and go on
	}
	return plan, nil
}

// sizesOf returns the sizes of runs, as tiers takes them.
func sizesOf(runs []*Run) []int64 {
	sizes := make([]int64, len(runs))
	for i, r := range runs {
		sizes[i] = r.bytes()
	}
	return sizes
}

// Sought counts what a scan of a version has sought in: so many runs. It asks for a compaction of the newest
// runs when that has become worth it.
func (t *Tree) Sought(v *Version, runs int) {
	if t.seeks.Add(runs, v.seeksUntil) && t.seeks.Pick(sizesOf(v.Runs), t.Env.CompactionRate.PerSecond()).Len() > 0 {
		t.Env.CompactSoon()
	}
}
