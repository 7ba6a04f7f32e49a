package engine

import "github.com/cleavestore/cleave/internal/manifest"

// applied is an entry that a partition has applied: its index and its time.
type applied struct {
	index uint64
	time  int64 // milliseconds; never falls
}

func (a applied) manifest() *manifest.Applied {
	if a.index == 0 {
		return nil
	}
	return &manifest.Applied{Index: a.index, Time: a.time}
}

func appliedFrom(m *manifest.Applied) applied {
	if m == nil {
		return applied{}
	}
	return applied{index: m.Index, time: m.Time}
}
