package lsm

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/internal/tiers"
)

// RunsLeft is how many runs Compact leaves.
const RunsLeft = 2

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

// PickFew leaves RunsLeft runs.
func PickFew(runs []*Run, _ bool) (tiers.Plan, error) {
	if len(runs) <= RunsLeft {
		return tiers.Plan{}, nil
	}
	return tiers.Plan{First: 0, End: len(runs) - RunsLeft + 1}, nil
}

// PickTiers is the picker of background compactions: it chooses all runs if much of them is
// dead, else runs of one tier, else those that scans have sought in often.
func (t *Tree) PickTiers(runs []*Run, last bool) (tiers.Plan, error) {
	if len(runs) == 0 {
		return tiers.Plan{}, nil
	}
	if t.wasteful(runs, last) {
		return tiers.Plan{First: 0, End: len(runs)}, nil
	}
	sizes := sizesOf(runs)
	if plan := tiers.Pick(sizes); plan.Len() > 0 {
		return plan, nil
	}
	return tiers.ByReads(sizes, t.seeks.Load()), nil
}

// sizesOf returns the sizes of runs, as tiers takes them.
func sizesOf(runs []*Run) []int64 {
	sizes := make([]int64, len(runs))
	for i, r := range runs {
		sizes[i] = r.bytes()
	}
	return sizes
}

// Scanned counts a scan that seeks in all runs of a version. It asks for a compaction of the newest ones when
// that has become worth it.
func (t *Tree) Scanned(v *Version) {
	more := int64(len(v.Runs) - 1)
	if more < 1 {
		return
	}
	if seeks := t.seeks.Add(more); seeks >= v.seeksUntil && seeks-more < v.seeksUntil {
		t.Env.CompactSoon()
	}
}
