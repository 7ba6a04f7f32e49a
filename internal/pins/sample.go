package pins

import "slices"

// Sample has the sequences that readers had pinned at some time, falling, or some of them.
type Sample []uint64

// mostSampled is how many sequences a Sample has at most.
const mostSampled = 64

// SampleOf returns at most 64 of falling sequences, spread evenly, with the first and the last.
func SampleOf(live []uint64) Sample {
	n := len(live)
	if n <= mostSampled {
		return live
	}
	few := make(Sample, mostSampled)
	for i := range few {
		few[i] = live[i*(n-1)/(mostSampled-1)]
	}
	return few
}

// Join returns a sample of the sequences of both.
func (s Sample) Join(o Sample) Sample {
	all := append(slices.Clone(s), o...)
	slices.Sort(all)
	slices.Reverse(all)
	return SampleOf(slices.Compact(all))
}
