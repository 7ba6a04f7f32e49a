package workload

import (
	"math"
	"testing"
	"time"
)

func parseKeys(t testing.TB, text string) Keys {
	t.Helper()
	k, err := ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// draw counts how often each of n documents is chosen.
func draw(k Keys, n int64, draws int, seed uint64) []float64 {
	c := k.NewChooser(n, seed, 0)
	counts := make([]float64, n)
	for range draws {
		counts[c.Next(n)]++
	}
	return counts
}

func TestKeysText(t *testing.T) {
	for in, out := range map[string]string{
		"uniform": "uniform", "zipf": "zipf:0.99", "zipf:0.5": "zipf:0.5", "zipf:1": "zipf:1", "latest": "latest:0.99",
		"latest:1.2": "latest:1.2", "hot:0.01/0.9": "hot:0.01/0.9", "hot:1/0": "hot:1/0",
		"moving:0.05/0.9": "moving:0.05/0.9",
	} {
		k := parseKeys(t, in)
		if k.String() != out || parseKeys(t, out) != k {
			t.Errorf("%q reads as %q", in, k)
		}
	}
	for _, bad := range []string{"", "uniform:1", "zip", "zipf:", "zipf:0", "zipf:-1", "zipf:nan", "zipf:11", "hot", "hot:0.1", "hot:0/1", "hot:2/1", "hot:0.1/2", "hot:0.1/0.9/3", "moving", "moving:0/1"} {
		if k, err := ParseKeys(bad); err == nil {
			t.Errorf("%q reads as %q", bad, k)
		}
	}
}

func TestDistributions(t *testing.T) {
	const n, draws, seed = 100, 200_000, 11
	even := func(int) float64 { return 1 }
	power := func(theta float64) func(int) float64 {
		return func(rank int) float64 { return math.Pow(float64(rank+1), -theta) }
	}
	// rank gives the weight of a rank, place the document that has it.
	f := func(text string, weight func(rank int) float64, place func(c *Chooser, rank int) int) {
		t.Run(text, func(t *testing.T) {
			k := parseKeys(t, text)
			chooser := k.NewChooser(n, 1, 1)
			counts, weights := draw(k, n, draws, seed), make([]float64, n)
			for rank := range n {
				weights[place(chooser, rank)] = weight(rank)
			}
			checkShares(t, counts, weights)
		})
	}
	spread := func(c *Chooser, rank int) int { return int(c.place(int64(rank))) }
	f("uniform", even, spread)
	f("hot:1/0.5", even, spread)
	for text, theta := range map[string]float64{"zipf:0.2": 0.2, "zipf:0.99": 0.99, "zipf:1": 1, "zipf:1.5": 1.5, "zipf:3": 3} {
		f(text, power(theta), spread)
	}
	f("latest:0.99", power(0.99), func(_ *Chooser, rank int) int { return n - 1 - rank })
	f("hot:0.1/0.9", func(rank int) float64 {
		if rank < n/10 {
			return 0.9 / 10
		}
		return 0.1 / 90
	}, spread)
	f("hot:0.2/0", func(rank int) float64 {
		if rank < n/5 {
			return 0
		}
		return 1
	}, spread)
}

// Popular documents are no neighbours, and every rank has a place of its own.
func TestPlaceIsAPermutation(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 4, 10, 97, 1000, 65536, 99_999} {
		c := parseKeys(t, "zipf").NewChooser(n, 1, 1)
		seen := make([]bool, n)
		for rank := range n {
			at := c.place(rank)
			if at < 0 || at >= n || seen[at] {
				t.Fatalf("n %d: rank %d has place %d", n, rank, at)
			}
			seen[at] = true
		}
	}
	c := parseKeys(t, "zipf").NewChooser(1<<40, 1, 1)
	if at := c.place(1<<40 - 1); at < 0 || at >= 1<<40 {
		t.Errorf("place %d of %d", at, int64(1)<<40)
	}
}

func TestChooserStaysInRange(t *testing.T) {
	for _, text := range []string{"uniform", "zipf", "zipf:1", "zipf:10", "latest", "hot:0.5/0.5", "hot:1/1"} {
		for _, n := range []int64{1, 2, 3, 1e12} {
			c := parseKeys(t, text).NewChooser(n, 5, 0)
			for range 1000 {
				if i := c.Next(n); i < 0 || i >= n {
					t.Fatalf("%s: %d of %d", text, i, n)
				}
			}
		}
	}
}

// Latest follows what was inserted.
func TestLatestFollows(t *testing.T) {
	c := parseKeys(t, "latest").NewChooser(1000, 1, 0)
	newest := 0
	for limit := int64(1000); limit < 3000; limit++ {
		i := c.Next(limit)
		if i < 0 || i >= limit {
			t.Fatalf("%d of %d", i, limit)
		}
		if limit-i <= 100 {
			newest++
		}
	}
	if newest < 1000 {
		t.Errorf("%d of 2000 choices are among the 100 newest", newest)
	}
}

// Workers with one seed choose differently, a worker always the same.
func TestChooserStreams(t *testing.T) {
	k := parseKeys(t, "zipf")
	a, again, b := k.NewChooser(1e6, 1, 0), k.NewChooser(1e6, 1, 0), k.NewChooser(1e6, 1, 1)
	equal := 0
	for range 1000 {
		x := a.Next(1e6)
		if x != again.Next(1e6) {
			t.Fatal("a chooser does not repeat")
		}
		if x == b.Next(1e6) {
			equal++
		}
	}
	if equal > 100 {
		t.Errorf("two streams agree in %d of 1000 choices", equal)
	}
}

func BenchmarkChooser(b *testing.B) {
	for _, text := range []string{"uniform", "zipf", "latest", "hot:0.01/0.9"} {
		b.Run(text, func(b *testing.B) {
			c := parseKeys(b, text).NewChooser(1e6, 1, 0)
			b.ReportAllocs()
			for b.Loop() {
				c.Next(1e6)
			}
		})
	}
}

// The hot range goes through all places in a period, and over the end to the
// beginning.
func TestMovingKeys(t *testing.T) {
	const n, hot, draws = 100, 10, 50_000
	c := parseKeys(t, "moving:0.1/0.9").NewChooser(n, 7, 0)
	for _, from := range []int{0, 30, 95, 30} {
		// Three periods later it is there again.
		c.MoveTo(3*MovingPeriod + MovingPeriod*time.Duration(2*from+1)/(2*n))
		counts, weights := make([]float64, n), make([]float64, n)
		for range draws {
			counts[c.Next(n)]++
		}
		for i := range n {
			weights[(from+i)%n] = 0.1 / (n - hot)
			if i < hot {
				weights[(from+i)%n] = 0.9 / hot
			}
		}
		checkShares(t, counts, weights)
	}
	if !parseKeys(t, "moving:0.1/0.9").Moving() || parseKeys(t, "hot:0.1/0.9").Moving() {
		t.Error("Moving is wrong")
	}
}
