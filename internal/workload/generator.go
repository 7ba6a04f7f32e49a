package workload

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
)

// Params select a generator and everything that its documents depend on.
type Params struct {
	Shape             string  `json:"shape"`              // one of Shapes
	Seed              uint64  `json:"seed"`               // any
	LogicalPartitions int     `json:"logical_partitions"` // 1 to MaxLogicalPartitions
	Skew              float64 `json:"skew"`               // exponent of their sizes; 0: all alike
	// Of SizedShape: the distribution of the sizes of documents, such as "lognormal:200..20k",
	// and the part of each that is the same in all, from 0 to 1.
	Sizes        string  `json:"document_sizes,omitempty"`
	Compressible float64 `json:"compressible,omitempty"`
}

// MaxLogicalPartitions bounds Params.LogicalPartitions: the generator keeps 8
// bytes for each.
const MaxLogicalPartitions = 1 << 24

// shape is one kind of document.
type shape struct {
	name      string
	keyPath   string
	about     string
	appendKey func(dst []byte, partition int) []byte
	appendID  func(dst []byte, i int64) []byte
	// appendRest appends what follows the characters of the id.
	appendRest func(dst []byte, partition int, rng rand.PCG) []byte
}

var shapes = []shape{foodShape, ycsbShape, smallShape, sizedShape}

// ShapeInfo describes a shape of documents.
type ShapeInfo struct {
	Name    string
	KeyPath string // the partition key path that suits it
	About   string // one line
}

// Shapes lists the shapes that Params.Shape can name.
func Shapes() []ShapeInfo {
	list := make([]ShapeInfo, 0, len(shapes))
	for _, s := range shapes {
		list = append(list, ShapeInfo{Name: s.name, KeyPath: s.keyPath, About: s.about})
	}
	return list
}

// Generator makes documents. It is immutable and safe for concurrent use.
type Generator struct {
	params Params
	shape  *shape
	sizes  alias
	// Of SizedShape.
	lengths sizes
}

// NewGenerator returns the generator for p.
func NewGenerator(p Params) (*Generator, error) {
	at := slices.IndexFunc(shapes, func(s shape) bool { return s.name == p.Shape })
	if at < 0 {
		names := make([]string, 0, len(shapes))
		for _, s := range shapes {
			names = append(names, s.name)
		}
		return nil, fmt.Errorf("unknown generator %q: want %s", p.Shape, strings.Join(names, ", "))
	}
	if p.LogicalPartitions < 1 || p.LogicalPartitions > MaxLogicalPartitions {
		return nil, fmt.Errorf("%d logical partitions: want 1 to %d", p.LogicalPartitions, MaxLogicalPartitions)
	}
	if !(p.Skew >= 0 && p.Skew <= 10) {
		return nil, fmt.Errorf("skew %v: want 0 to 10", p.Skew)
	}
	g := &Generator{params: p, shape: &shapes[at]}
	if p.Shape != SizedShape && (p.Sizes != "" || p.Compressible != 0) {
		return nil, fmt.Errorf("document sizes and compressibility belong to the generator %s, not %s", SizedShape, p.Shape)
	}
	if p.Shape == SizedShape {
		g.params.Sizes = cmp.Or(p.Sizes, DefaultSizes)
		if !(p.Compressible >= 0 && p.Compressible <= 1) {
			return nil, fmt.Errorf("compressible %v: want 0 to 1", p.Compressible)
		}
		var err error
		if g.lengths, err = parseSizes(g.params.Sizes); err != nil {
			return nil, err
		}
	}
	g.sizes = newAlias(p.LogicalPartitions, p.Skew)
	return g, nil
}

// Params returns what the generator was made from.
func (g *Generator) Params() Params { return g.params }

// KeyPath returns the partition key path of the documents.
func (g *Generator) KeyPath() string { return g.shape.keyPath }

// Partition returns the logical partition of document i, from 0.
func (g *Generator) Partition(i int64) int {
	var rng rand.PCG
	rng.Seed(g.params.Seed^partitionStream, uint64(i))
	return g.sizes.pick(rng.Uint64())
}

// AppendKey appends the partition key value of a logical partition, a string.
func (g *Generator) AppendKey(dst []byte, partition int) []byte {
	return g.shape.appendKey(dst, partition)
}

// AppendID appends the id of document i.
func (g *Generator) AppendID(dst []byte, i int64) []byte {
	return g.shape.appendID(dst, i)
}

// Append appends a version of document i. Version 0 is the one that loads
// write. Nothing is allocated if dst has room.
func (g *Generator) Append(dst []byte, i int64, version uint64) []byte {
	var rng rand.PCG
	rng.Seed(g.params.Seed^bodyStream, scramble(uint64(i), 64)+version)
	from := len(dst)
	dst = append(dst, idHead...)
	dst = g.shape.appendID(dst, i)
	if g.shape.appendRest == nil {
		return g.appendSized(dst, from, g.Partition(i), rng)
	}
	return g.shape.appendRest(dst, g.Partition(i), rng)
}

// idHead is what each document begins with; the id follows.
const idHead = `{"id":"`

// IsDocument reports whether body is some version of the document with this
// id, by its first bytes.
func IsDocument(body []byte, id string) bool {
	n := len(idHead) + len(id)
	return len(body) > n && body[n] == '"' &&
		string(body[len(idHead):n]) == id && string(body[:len(idHead)]) == idHead
}

// All returns version 0 of documents from to from+n-1. A document is valid
// until the next is asked for; there is no error. It may be ranged over more
// than once.
func (g *Generator) All(from, n int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var buf []byte
		for i := from; i < from+n; i++ {
			buf = g.Append(buf[:0], i, 0)
			if !yield(buf, nil) {
				return
			}
		}
	}
}

// Streams keep what is drawn for one purpose independent of another.
const (
	partitionStream = 0x9d6f1c3b5a7e2481
	bodyStream      = 0x51c7a93e06bd8f27
)

// scramble permutes the numbers of the given width in bits.
func scramble(x uint64, width uint) uint64 {
	mask := ^uint64(0) >> (64 - width)
	x = (x + 0x9e3779b97f4a7c15) & mask
	for _, factor := range [...]uint64{0xbf58476d1ce4e5b9, 0x94d049bb133111eb} {
		x ^= x >> (width / 2)
		x = x * factor & mask
	}
	return x ^ x>>(width/2)
}
