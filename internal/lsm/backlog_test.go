package lsm

import "testing"

// TestShare: what background work has to get grows with what there is to do.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		debts
		want float64
	}{
		{debts{}, 0},
		{debts{buffers: buffersFrom}, 0},
		{debts{buffers: (buffersFrom + PressureFrom) / 2}, 0.5},
		{debts{buffers: PressureFrom}, mostShare},
		{debts{buffers: 1.1}, mostShare},
		{debts{runs: TierRuns}, 0},
		{debts{runs: MaxRuns}, 0.5},
		{debts{runs: ManyRuns}, mostShare},
		{debts{runs: 100}, mostShare},
		{debts{files: 1}, rewriteShare},
		{debts{files: manyFiles}, mostRewrite},
		{debts{files: 1000}, mostRewrite},
		{debts{runs: ManyRuns, files: 1}, mostShare},
		{debts{buffers: buffersFrom, runs: TierRuns + 2}, 0.25},
	} {
		if got := c.share(); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("share of %+v is %v, want %v", c.debts, got, c.want)
		}
	}
	for _, grow := range []func(int) debts{
		func(n int) debts { return debts{buffers: float64(n) / 100} },
		func(n int) debts { return debts{runs: n} },
		func(n int) debts { return debts{files: n} },
	} {
		for n := range 120 {
			if a, b := grow(n).share(), grow(n+1).share(); a > b || a < 0 || b > mostShare {
				t.Errorf("share of %+v is %v, of %+v %v", grow(n), a, grow(n+1), b)
			}
		}
	}
}
