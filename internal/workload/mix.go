package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Op is a kind of operation.
type Op uint8

// Operations.
const (
	Read      Op  = iota // one document by key and id
	Update               // overwrite a document that exists
	Insert               // write the next new document
	Scan                 // 1 to MaxScan documents of a logical partition, from a document on
	RMW                  // read a document and write it again
	Absent               // look for a document that does not exist
	Partition            // all documents of a logical partition
	Equal                // count of the documents with a value
	Both                 // count of those with two values
	Between              // count of those with a value in a range
	First                // 100 of the documents with a value
	Ordered              // the first 100 of those with a value in a range, by it
	Within               // 10 documents of a logical partition with a value
	NumOps    int = iota
)

// MaxScan is the largest limit of a scan; limits are uniform from 1.
const MaxScan = 100

var opNames = [NumOps]string{"read", "update", "insert", "scan", "rmw", "absent", "partition",
	"equal", "and", "range", "first", "ordered", "within"}

// String returns the name in tables and in ParseMix.
func (o Op) String() string { return opNames[o] }

// OnePartition reports whether the operation is about a single logical partition.
func (o Op) OnePartition() bool { return o <= Partition || o == Within }

// Mix holds the share of each operation; the shares add up to 1.
type Mix [NumOps]float64

// ParseMix reads weights such as "read=95,update=5".
func ParseMix(text string) (Mix, error) {
	var mix Mix
	sum := 0.0
	for _, part := range strings.Split(text, ",") {
		name, weight, ok := strings.Cut(part, "=")
		op := slices.Index(opNames[:], name)
		w, err := strconv.ParseFloat(weight, 64)
		if !ok || op < 0 || err != nil || !(w >= 0 && w <= 1e9) || mix[op] != 0 {
			return Mix{}, fmt.Errorf("mix %q: at %q: want OP=WEIGHT,… with %s, such as read=95,update=5", text, part, strings.Join(opNames[:], ", "))
		}
		mix[op] = w
		sum += w
	}
	if sum <= 0 {
		return Mix{}, fmt.Errorf("mix %q: all weights are 0", text)
	}
	for i := range mix {
		mix[i] /= sum
	}
	return mix, nil
}

// String returns the shares in percent.
func (m Mix) String() string {
	var parts []string
	for op, share := range m {
		if share > 0 {
			parts = append(parts, opNames[op]+"="+strconv.FormatFloat(100*share, 'g', 4, 64))
		}
	}
	return strings.Join(parts, ",")
}

// UnmarshalText makes Mix usable as a flag.
func (m *Mix) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMix(string(text))
	return err
}

// Writes reports whether the mix holds an operation that writes.
func (m Mix) Writes() bool { return m[Update]+m[Insert]+m[RMW] > 0 }

// Picker draws operations from a mix. It is for one goroutine.
type Picker struct {
	upTo [NumOps]float64
	rng  rand.PCG
}

// NewPicker returns a picker that depends on the seed and the stream only.
func (m Mix) NewPicker(seed, stream uint64) *Picker {
	p := new(Picker)
	p.rng.Seed(seed^pickStream, stream)
	sum := 0.0
	last := Op(0)
	for op, share := range m {
		sum += share
		p.upTo[op] = sum
		if share > 0 {
			last = Op(op)
		}
	}
	for op := last; int(op) < NumOps; op++ {
		p.upTo[op] = 1 // whatever rounding left is the last operation's
	}
	return p
}

// Next returns an operation.
func (p *Picker) Next() Op {
	u := unit(&p.rng)
	op := Op(0)
	for u >= p.upTo[op] {
		op++
	}
	return op
}

const pickStream = 0x2c1b3c6d7a8e9f05

// Workload is a mix with a key distribution under a name.
type Workload struct {
	Name  string
	Mix   Mix
	Keys  Keys
	About string  // one line
	Skew  float64 // of the sizes of logical partitions, where documents are generated for it
}

// Workloads lists the workloads that have a name: the core workloads of YCSB,
// single operations, and uneven loads on the key space.
func Workloads() []Workload {
	popular := Keys{kind: zipfKeys, theta: DefaultTheta}
	newest := Keys{kind: latestKeys, theta: DefaultTheta}
	return []Workload{
		{"ycsb-a", Mix{Read: 0.5, Update: 0.5}, popular, "update heavy: a session store", 0},
		{"ycsb-b", Mix{Read: 0.95, Update: 0.05}, popular, "read mostly: photo tags", 0},
		{"ycsb-c", Mix{Read: 1}, popular, "read only: a profile cache", 0},
		{"ycsb-d", Mix{Read: 0.95, Insert: 0.05}, newest, "read latest: status updates", 0},
		{"ycsb-e", Mix{Scan: 0.95, Insert: 0.05}, popular, "short ranges in a logical partition: threads", 0},
		{"ycsb-f", Mix{Read: 0.5, RMW: 0.5}, popular, "read, modify, write: a user database", 0},
		{"read", Mix{Read: 1}, Keys{}, "uniform point reads", 0},
		{"put", Mix{Update: 1}, Keys{}, "uniform overwrites", 0},
		{"insert", Mix{Insert: 1}, Keys{}, "new documents, one by one", 0},
		{"scan", Mix{Scan: 1}, Keys{}, "short ranges in a logical partition", 0},
		{"absent", Mix{Absent: 1}, Keys{}, "uniform point reads of what does not exist", 0},
		{"partition", Mix{Partition: 1}, Keys{}, "whole logical partitions", 0},
		{"query-equal", Mix{Equal: 1}, Keys{}, "counts by a value; queries take food documents loaded with --index", 0},
		{"query-and", Mix{Both: 1}, Keys{}, "counts by two values", 0},
		{"query-range", Mix{Between: 1}, Keys{}, "counts by a range of a number", 0},
		{"query-first", Mix{First: 1}, Keys{}, "100 documents with a value", 0},
		{"query-ordered", Mix{Ordered: 1}, Keys{}, "the first 100 documents of a range, in its order", 0},
		{"query-within", Mix{Within: 1}, Keys{}, "10 documents with a value, in one logical partition", 0},
		{"query-mixed", Mix{Equal: 0.15, Both: 0.15, Between: 0.15, First: 0.1, Ordered: 0.1, Within: 0.3, Update: 0.05}, Keys{}, "all of these, with writes beside", 0},
		{"moving-hot-spot", Mix{Read: 0.5, Update: 0.5}, Keys{kind: movingKeys, hotShare: 0.05, hotOps: 0.9}, "a hot range that goes through the key space in a minute", 0},
		{"tenant-skew", Mix{Read: 0.5, Update: 0.5}, Keys{}, "few large tenants, many small ones; load with --skew 1.2", 1.2},
	}
}

// FindWorkload returns a workload by name, in any case; "b" is short for
// "ycsb-b".
func FindWorkload(name string) (Workload, error) {
	all := Workloads()
	names := make([]string, len(all))
	for i, w := range all {
		if strings.EqualFold(name, w.Name) || strings.EqualFold("ycsb-"+name, w.Name) {
			return w, nil
		}
		names[i] = w.Name
	}
	return Workload{}, fmt.Errorf("unknown workload %q: want %s", name, strings.Join(names, ", "))
}
