package lsm

import (
	"context"
	"fmt"

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
		if found, err := t.overwrites(ctx, runs); err != nil {
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

// roomFor says whether the disk has room for twice the size of runs, beside what it was asked for of other
// partitions. The room is counted as theirs until endRoom.
func (t *Tree) roomFor(runs []*Run) bool {
	size := bytesOf(runs)
	t.room += size
	taken := t.Env.room.Add(size)
	if free, err := t.Env.FS.Free(); err == nil && free/2 >= uint64(taken) {
		return true
	}
	t.room -= size
	t.Env.room.Add(-size)
	return false
}

// endRoom gives back what roomFor counts for the partition.
func (t *Tree) endRoom() {
	t.Env.room.Add(-t.room)
	t.room = 0
}

// PickTiers chooses all runs if much of them is dead, else runs of one tier.
func (t *Tree) PickTiers(runs []*Run, last bool) (tiers.Plan, error) {
	if len(runs) == 0 {
		return tiers.Plan{}, nil
	}
	if t.wasteful(runs, last) {
		return tiers.Plan{First: 0, End: len(runs)}, nil
	}
	return tiers.Pick(sizesOf(runs)), nil
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
