// Package randtest gives random tests their seeds, and prints the seed of a test that
// fails, so that the test can be repeated. It also has readers and writers that the tests of
// several packages use. It is for tests only.
//
// A seed comes from the flag -seed of a test binary, or for all packages from the
// environment:
//
//	go test ./engine -run '^TestModel$' -seed 7
//	CLEAVE_SEED=7 go test ./...
package randtest

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const variable = "CLEAVE_SEED"

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: that of $"+variable+", or another one each time")

// Seed returns the seed of a random test, and logs it if the test fails. It is
// never 0.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := *seedFlag
	if text := os.Getenv(variable); seed == 0 && text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with: go test -run '^%s$' -seed %d", t.Name(), seed)
		}
	})
	return seed
}

// New returns the random numbers of a test, from its Seed.
func New(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 1))
}
