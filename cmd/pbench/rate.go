package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/harness"
)

// rate is how many operations a second are due, as a flag: "20000", "20k/s", or
// "60%" of what a closed loop reaches.
type rate struct {
	perSecond float64
	share     float64 // of the maximum; 0: perSecond holds
}

// defaultRate leaves room to see how a store answers, not how it is swamped.
var defaultRate = rate{share: 0.6}

// UnmarshalText reads a flag.
func (r *rate) UnmarshalText(text []byte) error {
	*r = rate{}
	bad := fmt.Errorf("%q is no rate: want something like 20000, 20k/s or 60%%", text)
	if percent, ok := strings.CutSuffix(string(text), "%"); ok {
		x, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if err != nil || !(x > 0 && x <= 1000) {
			return bad
		}
		r.share = x / 100
		return nil
	}
	n, err := harness.ParseCount([]byte(strings.TrimSuffix(string(text), "/s")))
	if err != nil || n < 1 {
		return bad
	}
	r.perSecond = float64(n)
	return nil
}

// of returns the rate in operations a second where maximum is what a closed
// loop reaches.
func (r rate) of(maximum float64) float64 {
	if r.share > 0 {
		return max(r.share*maximum, 1)
	}
	return r.perSecond
}
