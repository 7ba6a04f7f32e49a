package workload

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

type keyKind uint8

const (
	uniformKeys keyKind = iota
	zipfKeys
	latestKeys
	hotKeys
	movingKeys
)

// Keys is a distribution of operations over documents. The zero value is
// uniform.
type Keys struct {
	kind     keyKind
	theta    float64 // zipf, latest
	hotShare float64 // hot, moving: fraction of the documents
	hotOps   float64 // hot, moving: share of the operations
}

// DefaultTheta is the exponent of zipf and latest when none is given.
const DefaultTheta = 0.99

// ParseKeys reads "uniform", "zipf", "zipf:0.99", "latest", "latest:0.99",
// "hot:0.01/0.9" or "moving:0.05/0.9".
func ParseKeys(text string) (Keys, error) {
	name, arg, hasArg := strings.Cut(text, ":")
	bad := func(want string) (Keys, error) {
		return Keys{}, fmt.Errorf("keys %q: want %s", text, want)
	}
	switch name {
	case "uniform":
		if !hasArg {
			return Keys{}, nil
		}
	case "zipf", "latest":
		k := Keys{kind: zipfKeys, theta: DefaultTheta}
		if name == "latest" {
			k.kind = latestKeys
		}
		if hasArg {
			theta, err := strconv.ParseFloat(arg, 64)
			if err != nil || !(theta > 0 && theta <= 10) {
				return bad("an exponent above 0 and at most 10, such as " + name + ":0.99")
			}
			k.theta = theta
		}
		return k, nil
	case "hot", "moving":
		share, ops, ok := strings.Cut(arg, "/")
		f, err1 := strconv.ParseFloat(share, 64)
		s, err2 := strconv.ParseFloat(ops, 64)
		if !ok || err1 != nil || err2 != nil || !(f > 0 && f <= 1) || !(s >= 0 && s <= 1) {
			return bad(name + ":F/S, F of the documents for S of the operations, such as " + name + ":0.01/0.9")
		}
		kind := hotKeys
		if name == "moving" {
			kind = movingKeys
		}
		return Keys{kind: kind, hotShare: f, hotOps: s}, nil
	}
	return bad("uniform, zipf:0.99, latest, hot:0.01/0.9 or moving:0.05/0.9")
}

// String returns the form that ParseKeys reads.
func (k Keys) String() string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	switch k.kind {
	case zipfKeys:
		return "zipf:" + number(k.theta)
	case latestKeys:
		return "latest:" + number(k.theta)
	case hotKeys:
		return "hot:" + number(k.hotShare) + "/" + number(k.hotOps)
	case movingKeys:
		return "moving:" + number(k.hotShare) + "/" + number(k.hotOps)
	}
	return "uniform"
}

// UnmarshalText makes Keys usable as a flag.
func (k *Keys) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKeys(string(text))
	return err
}

// MovingPeriod is in what time the hot range of moving keys goes once through
// the key space.
const MovingPeriod = time.Minute

// Moving reports whether what is chosen are places in the key space, and the
// Chooser wants to be told by MoveTo where the hot range is.
func (k Keys) Moving() bool { return k.kind == movingKeys }

// Chooser picks documents. It is for one goroutine.
type Chooser struct {
	keys   Keys
	n      int64
	rng    rand.PCG
	zipf   zipf
	hot    int64 // documents
	from   int64 // the first of the hot range that moves
	stride int64 // of the permutation; no common factor with n
}

// NewChooser returns a chooser over n documents, n > 0, that depends on the
// seed and the stream only; each worker has a stream of its own.
func (k Keys) NewChooser(n int64, seed, stream uint64) *Chooser {
	c := &Chooser{keys: k, n: n, stride: spread(n)}
	c.rng.Seed(seed, stream)
	switch k.kind {
	case zipfKeys, latestKeys:
		c.zipf = newZipf(k.theta, n)
	case hotKeys, movingKeys:
		c.hot = min(max(int64(k.hotShare*float64(n)+0.5), 1), n)
	}
	return c
}

// MoveTo puts the hot range of moving keys to where it is after a time.
func (c *Chooser) MoveTo(after time.Duration) {
	part := float64(after%MovingPeriod) / float64(MovingPeriod)
	c.from = min(int64(part*float64(c.n)), c.n-1)
}

// Next returns an index. limit is the number of documents there are now, at
// least as many as at the beginning: latest counts back from it, the others
// choose among those of the beginning. Moving keys give places in the key space
// in place of indexes.
func (c *Chooser) Next(limit int64) int64 {
	switch c.keys.kind {
	case zipfKeys:
		return c.place(c.zipf.next(&c.rng))
	case latestKeys:
		if limit > c.zipf.n {
			c.zipf.resize(limit)
		}
		return c.zipf.n - 1 - c.zipf.next(&c.rng)
	case hotKeys:
		if unit(&c.rng) < c.keys.hotOps || c.hot == c.n {
			return c.place(below64(&c.rng, c.hot))
		}
		return c.place(c.hot + below64(&c.rng, c.n-c.hot))
	case movingKeys:
		rank := below64(&c.rng, c.hot)
		if unit(&c.rng) >= c.keys.hotOps && c.hot < c.n {
			rank = c.hot + below64(&c.rng, c.n-c.hot)
		}
		return (c.from + rank) % c.n // beyond the end it goes on at the beginning
	}
	return below64(&c.rng, c.n)
}

// Rand returns a number in [0,n) for other choices of the worker.
func (c *Chooser) Rand(n int) int { return below(&c.rng, n) }

// place permutes ranks, so that popular documents are spread over all.
func (c *Chooser) place(rank int64) int64 {
	hi, lo := bits.Mul64(uint64(rank), uint64(c.stride))
	return int64(bits.Rem64(hi, lo, uint64(c.n)))
}

// spread returns a step of about the golden section of n that visits all of
// [0,n).
func spread(n int64) int64 {
	for step := max(int64(float64(n)*0.6180339887498949), 1); ; step++ {
		if gcd(step, n) == 1 {
			return step
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
