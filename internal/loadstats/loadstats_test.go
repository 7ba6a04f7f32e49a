package loadstats

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cleavestore/cleave/splitter"
)

// TestLoad has two partitions consume at different rates, one of which has a hot key.
func TestLoad(t *testing.T) {
	var c Container
	var busy, idle Partition
	policy := splitter.Policy{MaxLoad: 100}
	if c.Hottest(5, time.Hour) != nil || c.Load(&busy, time.Hour) != 0 {
		t.Error("before the first sample")
	}
	now := time.Hour
	second := func(keys int) {
		for i := range 20 {
			c.Sample(&busy, fmt.Append(nil, "busy", i%keys), 10, 1, now)
		}
		c.Sample(&idle, []byte("idle"), 10, 1, now)
		if c.Overloaded(&idle, policy, false, now) != nil || c.Overloaded(&busy, policy, true, now) != nil {
			t.Error("idle, or still in need of the logs of its parents")
		}
		now += time.Second
	}
	for range 300 {
		second(2)
	}
	for what, is := range map[string][2]float64{
		"busy": {c.Load(&busy, now), 200}, "idle": {c.Load(&idle, now), 10},
		"hottest": {c.Hottest(1, now)[0].Units, 100}, "its operations": {c.Hottest(1, now)[0].Ops, 10},
	} {
		if math.Abs(is[0]-is[1]) > 0.03*is[1] {
			t.Errorf("%s: %v, want about %v", what, is[0], is[1])
		}
	}
	if n := len(c.Hottest(10, now)); n != 3 {
		t.Errorf("%d keys, want 3", n)
	}
}

// TestOverloaded collects a histogram while the load is too high, and none after Rest.
func TestOverloaded(t *testing.T) {
	var c Container
	var p Partition
	policy := splitter.Policy{MaxLoad: 100}
	now := time.Hour
	collect := func(n int) *splitter.Histogram {
		for i := range n {
			c.Sample(&p, fmt.Append(nil, i%100), 10, 1, now)
			if h := c.Overloaded(&p, policy, false, now); h != nil {
				return h
			}
			now += 50 * time.Millisecond
		}
		return nil
	}
	enough := int(2*span/(50*time.Millisecond)) + splitter.LoadSamples
	if collect(enough) == nil {
		t.Error("overloaded, and no histogram")
	}
	c.Rest(&p, now)
	if collect(int(pause/(50*time.Millisecond))-1) != nil {
		t.Error("a histogram while it rests")
	}
	if collect(enough) == nil {
		t.Error("no histogram after it has rested")
	}
}
