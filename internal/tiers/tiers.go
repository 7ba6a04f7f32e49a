// Package tiers chooses which runs of a partition are compacted together, by their sizes, and says
// how far compactions are behind.
//
// Runs of like size are a tier. Eight of them become one run of the next tier, so a version is
// written once for each tier that it rises: twice in 64 flushes, three times in 512.
//
//	newest                                                    oldest
//	│ 29 │ 29 │ 29 │ 237 │ 237 │ 237 │ 237 │ 237 │ 1900 │ 1900 │   MB
//	└─ flushes write ┘└─────── of eight each ──────┘└── of 64 ──┘
package tiers

const (
	Runs    = 8  // number of runs of a tier that are compacted together
	MaxRuns = 12 // above it runs are compacted though no tier has so many

	ManyRuns = MaxRuns + 4 // from here on writes slow down
	MostRuns = 4 * MaxRuns // from here on they wait

	ratio = 2  // a run of a tier is at most so many times as large as the newer ones of it are on average
	apart = 16 // the older of two runs that rest beside each other is at least so many times as large as the newer
)

// Plan is a choice of neighbouring runs: runs[First:End].
type Plan struct{ First, End int }

// Len is the number of runs.
func (p Plan) Len() int { return p.End - p.First }

// Pick chooses among neighbouring runs of these sizes, newest first: the newest runs of a tier
// that has Runs of them. If there is none, and there are more than MaxRuns, it chooses the tier
// with the most runs.
func Pick(sizes []int64) (longest Plan) {
	for first := range sizes {
		tier := Plan{first, first + 1}
		for sum := sizes[first]; tier.End < len(sizes); tier.End++ {
			if mean := sum / int64(tier.Len()); sizes[tier.End] > mean*ratio {
				break
			}
			sum += sizes[tier.End]
		}
		if tier.Len() >= Runs {
			return tier
		}
		if tier.Len() > longest.Len() {
			longest = tier
		}
	}
	switch {
	case len(sizes) <= MaxRuns:
		return Plan{}
	case longest.Len() < 2:
		return Plan{0, len(sizes) - MaxRuns + 2}
	}
	return longest
}

// Fewest chooses among neighbouring runs of these sizes, newest first, such that one run is left, or two
// if the newer is so small that a scan hardly meets it. So what the oldest run has is written again only
// when the newer ones have grown to a part of it, and never unless oldest.
func Fewest(sizes []int64, oldest bool) Plan {
	last, newer := len(sizes)-1, int64(0)
	if last < 1 {
		return Plan{}
	}
	for _, size := range sizes[:last] {
		newer += size
	}
	switch {
	case oldest && newer > sizes[last]/apart:
		return Plan{0, last + 1}
	case last > 1:
		return Plan{0, last}
	}
	return Plan{}
}

// Backlog says how far a partition with so many runs is from one in which compactions rest, 0, to
// one in which writes slow down, 1 from there on.
func Backlog(runs int) float64 { return max(0, min(1, float64(runs-Runs)/(ManyRuns-Runs))) }
