package sim

import (
	"flag"
	"testing"
	"testing/cryptotest"
)

var (
	seeds = flag.Int("seeds", 100, "how many runs TestSeeds makes")
	first = flag.Uint64("first", 1, "seed of the first run")
	tell  = flag.Bool("tell", false, "log what happens in each run")
)

// run makes a run that is the same whenever the seed is.
func run(t *testing.T, seed uint64) (Result, error) {
	cryptotest.SetGlobalRandom(t, seed)
	var o Options
	if *tell {
		o.Trace = func(line string) { t.Log(line) }
	}
	return Run(seed, o)
}

// TestSeeds makes runs: go test ./sim -run TestSeeds -first 17 -seeds 1 -tell -v repeats one.
func TestSeeds(t *testing.T) {
	counts := make(map[string]int)
	for i := range *seeds {
		res, err := run(t, *first+uint64(i))
		if err != nil {
			t.Errorf("%v", err)
		}
		for what, n := range res.Counts {
			counts[what] += n
		}
		counts["entries"] += int(res.Entries)
		counts["events"] += res.Events
	}
	t.Log(counts)
}

// TestRepeatable: a run is the same for the same seed, to the last event.
func TestRepeatable(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		one, err := run(t, seed)
		if err != nil {
			t.Fatal(err)
		}
		two, err := run(t, seed)
		if err != nil {
			t.Fatal(err)
		}
		if one.Trace != two.Trace || one.Events != two.Events {
			t.Errorf("seed %d: %d events with trace %x, then %d with %x", seed, one.Events, one.Trace, two.Events, two.Trace)
		}
	}
}
