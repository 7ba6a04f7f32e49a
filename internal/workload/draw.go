package workload

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// below returns a number in [0,n). The bias is under n/2^64.
func below(rng *rand.PCG, n int) int {
	hi, _ := bits.Mul64(rng.Uint64(), uint64(n))
	return int(hi)
}

// below64 is below for 64-bit counts.
func below64(rng *rand.PCG, n int64) int64 {
	hi, _ := bits.Mul64(rng.Uint64(), uint64(n))
	return int64(hi)
}

// unit returns a number in [0,1).
func unit(rng *rand.PCG) float64 { return float64(rng.Uint64()>>11) * 0x1p-53 }

// alias draws from n weighted choices in constant time: one column holds
// choice i up to its threshold and another choice above it.
type alias []column

type column struct{ threshold, other uint32 }

// newAlias gives choice i the weight (i+1)^-skew.
func newAlias(n int, skew float64) alias {
	weights := make([]float64, n)
	sum := 0.0
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -skew)
		sum += weights[i]
	}
	table := make(alias, n)
	// Columns below the mean are filled up by those above it.
	var low, high []uint32
	for i := range weights {
		weights[i] *= float64(n) / sum
		if weights[i] < 1 {
			low = append(low, uint32(i))
		} else {
			high = append(high, uint32(i))
		}
	}
	for len(low) > 0 && len(high) > 0 {
		l, h := low[len(low)-1], high[len(high)-1]
		low = low[:len(low)-1]
		table[l] = column{threshold: uint32(weights[l] * math.MaxUint32), other: h}
		weights[h] -= 1 - weights[l]
		if weights[h] < 1 {
			high = high[:len(high)-1]
			low = append(low, h)
		}
	}
	for _, i := range append(low, high...) {
		table[i] = column{threshold: math.MaxUint32, other: i}
	}
	return table
}

// pick maps 64 random bits to a choice.
func (a alias) pick(random uint64) int {
	hi, lo := bits.Mul64(random, uint64(len(a)))
	c := a[hi]
	if uint32(lo>>32) <= c.threshold {
		return int(hi)
	}
	return int(c.other)
}

// zipf draws ranks 0 to n-1 with probability proportional to (rank+1)^-theta,
// exactly, by rejection from the integral of the density (Hörmann and
// Derflinger 1996). No sum over n is needed, so n may change between draws.
type zipf struct {
	theta float64
	n     int64
	first float64 // integral up to the lower end of rank 0, less its bar
	last  float64 // integral up to the upper end of rank n-1
	sure  float64 // distance from a rank within which it is accepted at once
}

func newZipf(theta float64, n int64) zipf {
	z := zipf{theta: theta}
	z.first = z.integral(1.5) - 1
	z.sure = 2 - z.inverse(z.integral(2.5)-math.Pow(2, -theta))
	z.resize(n)
	return z
}

func (z *zipf) resize(n int64) {
	z.n = n
	z.last = z.integral(float64(n) + 0.5)
}

func (z *zipf) next(rng *rand.PCG) int64 {
	for {
		u := z.last + unit(rng)*(z.first-z.last)
		x := z.inverse(u)
		k := min(max(int64(x+0.5), 1), z.n)
		if float64(k)-x <= z.sure || u >= z.integral(float64(k)+0.5)-math.Exp(-z.theta*math.Log(float64(k))) {
			return k - 1
		}
	}
}

// integral is that of x^-theta, 0 at 1.
func (z *zipf) integral(x float64) float64 {
	log := math.Log(x)
	if power := (1 - z.theta) * log; math.Abs(power) > 1e-9 {
		return math.Expm1(power) / (1 - z.theta)
	}
	return log
}

func (z *zipf) inverse(u float64) float64 {
	if t := u * (1 - z.theta); math.Abs(t) > 1e-9 {
		return math.Exp(math.Log1p(max(t, -1)) / (1 - z.theta))
	}
	return math.Exp(u)
}
