package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Sizes of documents of the shape SizedShape.
const (
	SizedShape = "sized"
	// DefaultSizes are theirs where nothing else is said.
	DefaultSizes = "lognormal:200..20k"
	minSize      = 100
	maxSize      = 2 << 20
)

// sizes is a distribution of the sizes of documents, in bytes.
type sizes struct {
	kind     string // fixed, uniform, lognormal or zipf
	min, max int64
	zipf     zipf
}

// parseSizes reads "1KiB", "200..20k", "uniform:200..20k", "lognormal:200..20k" or
// "zipf:200..20k".
func parseSizes(text string) (s sizes, err error) {
	bad := func() (sizes, error) {
		return sizes{}, fmt.Errorf("document size %q: want a size such as 1KiB, or uniform:, lognormal: or zipf:MIN..MAX such as lognormal:200..20k, of %d bytes to 2MiB", text, minSize)
	}
	kind, bounds, named := strings.Cut(text, ":")
	if !named {
		kind, bounds = "uniform", text
	}
	low, high, ranged := strings.Cut(bounds, "..")
	if !ranged {
		if named {
			return bad()
		}
		kind, high = "fixed", low
	}
	least, lowErr := parseSize(low)
	most, highErr := parseSize(high)
	if lowErr != nil || highErr != nil {
		return bad()
	}
	s = sizes{kind: kind, min: least, max: most}
	if s.min < minSize || s.max > maxSize || s.min > s.max || s.min == s.max && kind != "fixed" {
		return bad()
	}
	switch kind {
	case "fixed", "uniform", "lognormal":
	case "zipf":
		s.zipf = newZipf(DefaultTheta, s.max-s.min+1)
	default:
		return bad()
	}
	return s, nil
}

// sizeUnits are what may follow the number of a size, in letters of either case.
var sizeUnits = []struct {
	name  string
	bytes float64
}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"kb", 1e3}, {"mb", 1e6}, {"k", 1 << 10}, {"m", 1 << 20}, {"b", 1}}

// parseSize reads a number of bytes: "200", "20k", "1.5MiB".
func parseSize(text string) (int64, error) {
	number, factor := strings.ToLower(strings.TrimSpace(text)), 1.0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = rest, u.bytes
			break
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if err == nil && !(x*factor >= 0 && x*factor <= maxSize) {
		err = strconv.ErrRange
	}
	return int64(x * factor), err
}

// tail is the normal quantile of 99 %: bounds of a lognormal distribution are its first and
// last percent.
const tail = 2.3263478740408408

// draw returns a size.
func (s *sizes) draw(rng *rand.PCG) int {
	switch s.kind {
	case "uniform":
		return int(s.min + below64(rng, s.max-s.min+1))
	case "lognormal":
		low, high := math.Log(float64(s.min)), math.Log(float64(s.max))
		// Box and Muller.
		normal := math.Sqrt(-2*math.Log(1-unit(rng))) * math.Cos(2*math.Pi*unit(rng))
		x := math.Exp((low+high)/2 + normal*(high-low)/(2*tail))
		return int(min(max(math.Round(x), float64(s.min)), float64(s.max)))
	case "zipf":
		return int(s.min + s.zipf.next(rng))
	}
	return int(s.min)
}

// sizedShape has documents of a size that is drawn for each version.
var sizedShape = shape{
	name:      SizedShape,
	keyPath:   "/tenant",
	about:     "documents of a size and compressibility that flags give",
	appendKey: appendTenant,
	appendID:  appendUser,
}

// sizedBlock is a multiple of 8: of each so many characters of a document, a part is always
// the same, and the rest is random.
const sizedBlock = 64

// sizedFiller is what can be compressed.
const sizedFiller = "all work and no play makes a document that compresses very well."

// appendSized appends what follows the characters of the id, so that the document, which
// begins at from, has a size.
func (g *Generator) appendSized(dst []byte, from, partition int, rng rand.PCG) []byte {
	end := from + g.lengths.draw(&rng)
	dst = appendTenant(append(dst, `","tenant":"`...), partition)
	dst = append(dst, `","body":"`...)
	same := int(math.Round(g.params.Compressible * sizedBlock))
	for end -= len(`"}`); len(dst) < end; {
		for range (sizedBlock - same + 7) / 8 {
			random := rng.Uint64()
			for range 8 {
				dst = append(dst, printable[byte(random)])
				random >>= 8
			}
		}
		dst = append(dst, sizedFiller[:same]...)
	}
	return append(dst[:end], `"}`...)
}
