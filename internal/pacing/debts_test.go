package pacing

import "testing"

// TestShare: what background work has to get grows with what there is to do.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		Debts
		want float64
	}{
		{Debts{}, 0},
		{Debts{Buffers: buffersFrom}, 0},
		{Debts{Buffers: (buffersFrom + PressureFrom) / 2}, 0.5},
		{Debts{Buffers: PressureFrom}, mostShare},
		{Debts{Buffers: 1.1}, mostShare},
		{Debts{Runs: 0.5}, 0.5},
		{Debts{Runs: 1}, mostShare},
		{Debts{Files: 1}, rewriteShare},
		{Debts{Files: manyFiles}, mostRewrite},
		{Debts{Files: 1000}, mostRewrite},
		{Debts{Runs: 1, Files: 1}, mostShare},
		{Debts{Buffers: buffersFrom, Runs: 0.25}, 0.25},
	} {
		if got := c.Share(); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("share of %+v is %v, want %v", c.Debts, got, c.want)
		}
	}
	for _, grow := range []func(int) Debts{
		func(n int) Debts { return Debts{Buffers: float64(n) / 100} },
		func(n int) Debts { return Debts{Runs: float64(n) / 100} },
		func(n int) Debts { return Debts{Files: n} },
	} {
		for n := range 120 {
			if a, b := grow(n).Share(), grow(n+1).Share(); a > b || a < 0 || b > mostShare {
				t.Errorf("share of %+v is %v, of %+v %v", grow(n), a, grow(n+1), b)
			}
		}
	}
}
