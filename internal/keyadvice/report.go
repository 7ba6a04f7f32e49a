package keyadvice

import (
	"slices"

	"github.com/cleavestore/cleave/partmap"
)

// Report is what a study found. Sizes are in bytes of JSON text, shares between
// 0 and 1.
type Report struct {
	Documents   int64       `json:"documents"`
	Bytes       int64       `json:"bytes"`
	NoID        int64       `json:"documents_without_id"` // or with one that is refused
	TooLarge    int64       `json:"documents_too_large"`  // over MaxDocument
	Partitions  int         `json:"physical_partitions"`
	TargetBytes int64       `json:"target_bytes,omitempty"`
	Throughput  float64     `json:"target_ru_per_s,omitempty"`
	Candidates  []Candidate `json:"candidates"` // best first
	Advice      Advice      `json:"advice"`
	Notes       []string    `json:"notes"` // on the sample as a whole
}

// Candidate is what was found of one partition key.
type Candidate struct {
	Key      string   `json:"key"` // the paths, with commas
	Paths    []string `json:"paths"`
	Verdict  Verdict  `json:"verdict"`
	Reasons  []Reason `json:"reasons"`
	Logical  int64    `json:"logical_partitions"`
	Estimate bool     `json:"estimated"`      // the number of logical partitions and the ranks
	Error    float64  `json:"standard_error"` // of the number, as a share of it; 0: exact
	// Documents of a logical partition: half have no more than Median, 99 of 100
	// no more than P99.
	Median int64 `json:"documents_median"`
	P99    int64 `json:"documents_p99"`
	Max    int64 `json:"documents_max"` // of the largest one; about so many if estimated

	Largest        []LogicalPartition `json:"largest"` // by bytes
	LargestShare   float64            `json:"largest_share"`
	UndefinedShare float64            `json:"undefined_share"` // of the documents; the worst level's
	NullShare      float64            `json:"null_share"`
	TooLong        int64              `json:"documents_key_too_long"`
	NotScalar      int64              `json:"documents_key_not_scalar"`
	Inexact        int64              `json:"documents_key_inexact"` // whole numbers from 2^53 on, which doubles do not tell apart
	LongestString  int                `json:"longest_string_bytes"`
	Rising         bool               `json:"rising"` // the values rise from document to document

	Physical      []PhysicalPartition `json:"physical"` // in key-space order
	FullestShare  float64             `json:"fullest_share"`
	EmptiestShare float64             `json:"emptiest_share"`
	UsableUnits   float64             `json:"usable_throughput_share"` // of the RU/s that can be used if requests follow the bytes

	// LimitBytes is the size of the container at which the largest logical
	// partition reaches LogicalBytes, if it keeps its share; 0: it does not grow.
	LimitBytes int64 `json:"logical_limit_at_bytes"`
	// LimitUnits is the RU/s of the container at which the largest logical
	// partition wants PartitionUnits, if requests follow the bytes.
	LimitUnits float64 `json:"logical_limit_at_ru_per_s"`
	// SplitBytes is the size of the container at which the fullest of the
	// physical partitions reaches PhysicalBytes and splits.
	SplitBytes int64      `json:"first_split_at_bytes"`
	First      FirstLimit `json:"first_limit"`

	// Firsts is the number of values of the first level, if there are more.
	Firsts int64 `json:"first_level_values,omitempty"`

	average float64 // documents of a logical partition
	grouped float64 // documents of a value of the first level
	surely  float64 // LargestShare at least
}

// LogicalPartition is one of the largest ones of a candidate.
type LogicalPartition struct {
	Key       partmap.Key `json:"-"`
	Text      string      `json:"key,omitempty"` // for the caller to fill in; null and undefined are always there
	EPK       string      `json:"epk"`
	Documents int64       `json:"documents"`
	Bytes     int64       `json:"bytes"`
	Error     int64       `json:"bytes_error,omitempty"` // it may have so many fewer
	Share     float64     `json:"bytes_share"`           // of those of all documents
	Physical  int         `json:"physical_partition"`    // from 1
}

// PhysicalPartition is one of the partitions that the sample is spread over.
type PhysicalPartition struct {
	Documents int64   `json:"documents"`
	Bytes     int64   `json:"bytes"`
	Share     float64 `json:"bytes_share"`
}

// Report returns what was found so far, judged.
func (s *Study) Report() *Report {
	o := s.options
	if o.TargetBytes == 0 && o.Growth > 0 {
		o.TargetBytes = int64(min(o.Growth*float64(s.total.bytes), mostBytes))
	}
	r := &Report{
		Documents: s.total.documents, Bytes: s.total.bytes, NoID: s.reader.noID, TooLarge: s.reader.tooLarge,
		Partitions: o.Partitions, TargetBytes: o.TargetBytes, Throughput: o.Throughput,
	}
	for _, c := range s.candidates {
		r.Candidates = append(r.Candidates, c.describe(o.Top))
	}
	if o.Proposed {
		r.prune()
	}
	r.judge()
	return r
}

// describe returns the figures of a candidate.
func (c *candidate) describe(top int) Candidate {
	d := Candidate{
		Key: c.name(), Paths: c.paths, Logical: c.counter.keys(), Estimate: !c.counter.exact(), Error: c.counter.relativeError(),
		TooLong: c.tooLong, NotScalar: c.notScalar, Inexact: c.inexact, LongestString: c.longest, Rising: c.order.rising(),
		Largest: []LogicalPartition{}, Physical: []PhysicalPartition{},
	}
	ranks := c.counter.ranks(0.5, 0.99, 1)
	d.Median, d.P99, d.Max = ranks[0], ranks[1], ranks[2]
	for i, l := range c.counter.largest(max(top, 1)) {
		key := partmap.FromTrusted([]byte(l.key))
		epk := key.EPK()
		p := LogicalPartition{
			Key: key, EPK: epk.String(), Documents: l.size.documents, Bytes: l.size.bytes, Error: l.err.bytes,
			Share: share(l.size.bytes, c.total.bytes), Physical: c.table.Find(&epk) + 1,
		}
		if key == partmap.Null() || key == partmap.Undefined() {
			p.Text = key.String() // tells nothing of the data
		}
		if i == 0 {
			d.LargestShare = p.Share
		}
		d.surely = max(d.surely, share(l.size.bytes-l.err.bytes, c.total.bytes))
		if ranks[2] > 1 || l.size.documents-l.err.documents > 1 { // it is known of some key to have more than one
			d.Max = max(d.Max, p.Documents)
		}
		d.Largest = append(d.Largest, p)
	}
	d.Largest = d.Largest[:min(max(top, 0), len(d.Largest))]
	for _, l := range c.levels {
		d.UndefinedShare = max(d.UndefinedShare, share(l.undefined, c.total.documents))
		d.NullShare = max(d.NullShare, share(l.null, c.total.documents))
	}
	for _, t := range c.physical {
		d.Physical = append(d.Physical, PhysicalPartition{t.documents, t.bytes, share(t.bytes, c.total.bytes)})
	}
	byShare := func(a, b PhysicalPartition) int { return int(a.Bytes - b.Bytes) }
	d.FullestShare = slices.MaxFunc(d.Physical, byShare).Share
	d.EmptiestShare = slices.MinFunc(d.Physical, byShare).Share
	if d.FullestShare > 0 {
		d.UsableUnits = 1 / (d.FullestShare * float64(len(d.Physical)))
		d.SplitBytes = int64(PhysicalBytes / d.FullestShare)
	}
	if d.LargestShare > 0 {
		d.LimitUnits = PartitionUnits / d.LargestShare
		if d.Max > 1 {
			d.LimitBytes = int64(min(LogicalBytes/d.LargestShare, mostBytes))
		}
	}
	if d.Logical > 0 {
		d.average = float64(c.total.documents) / float64(d.Logical)
		d.grouped = d.average
	}
	if c.firsts != nil && d.Logical > 0 {
		d.Firsts = c.firsts.keys()
		d.grouped = float64(c.total.documents) / float64(d.Firsts)
	}
	return d
}

// prune leaves out hierarchical candidates whose further levels divide nothing.
func (r *Report) prune() {
	r.Candidates = slices.DeleteFunc(r.Candidates, func(c Candidate) bool { return !c.divides() })
}

// divides reports whether the levels after the first divide its values further.
func (c *Candidate) divides() bool {
	return len(c.Paths) == 1 || float64(c.Logical) > 1.05*float64(c.Firsts)
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
