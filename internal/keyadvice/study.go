package keyadvice

import (
	"math"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/partmap"
)

// Limits of the model that a key can meet.
const (
	LogicalBytes       = 20 << 30 // a logical partition
	PhysicalBytes      = 50 << 30 // a physical partition, before it splits
	PartitionUnits     = 10_000   // RU/s of a logical or physical partition
	defaultPartitions  = 8
	maxAutoPartitions  = 256
	defaultMaxKeys     = 500_000
	defaultTop         = 5
	heavyKeys          = 8192
	firstKeys          = 1 << 16 // values of a first level that are counted one by one
	surveyKeys         = 2048
	surveyHeavy        = 256
	maxFields          = 256
	maxFieldDepth      = 3
	maxProposals       = 6
	maxPairs           = 2
	smallSample        = 1000
	comfortableUnknown = 1 << 40 // headroom that is enough where no target is known
	mostBytes          = 1 << 60 // of what is computed: more says nothing, and twice as much is a number
)

// Options say for what future keys are judged. The zero value means nothing is
// known of it.
type Options struct {
	Partitions  int     // physical partitions to spread over; 0: 8, or as many as the target needs
	TargetBytes int64   // size of the data some day; 0: see Growth
	Growth      float64 // how many times the sample the data will be some day; 0: unknown
	Throughput  float64 // RU/s of the container some day; 0: unknown
	Proposed    bool    // the candidates were proposed: leave out hierarchical ones that divide no further
	Top         int     // largest keys that a report names; 0: 5; below 0: none
	MaxKeys     int     // logical partitions that are counted one by one for each candidate; 0: 500,000
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Partitions <= 0 {
		needed := max((o.TargetBytes+PhysicalBytes-1)/PhysicalBytes, int64(math.Ceil(o.Throughput/PartitionUnits)))
		o.Partitions = int(min(max(needed, defaultPartitions), maxAutoPartitions))
	}
	if o.Top == 0 {
		o.Top = defaultTop
	}
	if o.MaxKeys <= 0 {
		o.MaxKeys = defaultMaxKeys
	}
	return o
}

// Study counts a sample by some candidate keys.
type Study struct {
	options    Options
	reader     *reader
	selector   *jsondoc.Selector
	values     []jsondoc.Value // by slot of selector
	candidates []*candidate
	slots      [][]int // of each candidate's levels
	total      tally
}

// NewStudy returns a study of candidates, each the 1 to 3 paths of a partition
// key definition.
func NewStudy(keys [][]string, o Options) (*Study, error) {
	s := &Study{options: o.withDefaults(), reader: newReader()}
	table := evenTable(s.options.Partitions)
	known := make(map[string]int) // slots by path, in one form: a selector gives a value to one of them
	var selected []jsondoc.Path
	for _, paths := range keys {
		if _, err := jsondoc.Compile(paths); err != nil {
			return nil, err
		}
		var slots []int
		for _, text := range paths {
			path := jsondoc.KeyPath(text)
			slot, ok := known[path.String()]
			if !ok {
				slot = len(selected)
				known[path.String()] = slot
				selected = append(selected, path)
			}
			slots = append(slots, slot)
		}
		s.slots = append(s.slots, slots)
		s.candidates = append(s.candidates, newCandidate(paths, table, s.options.MaxKeys, heavyKeys))
	}
	s.selector, s.values = jsondoc.NewSelector(selected), make([]jsondoc.Value, len(selected))
	return s, nil
}

// evenTable returns n partitions where the service puts them in a new
// container.
func evenTable(n int) *partmap.Table {
	var entries []partmap.Entry
	for i, r := range partmap.Ranges(n) {
		entries = append(entries, partmap.Entry{ID: partmap.PartitionID(i + 1), Range: r})
	}
	table, err := partmap.NewTable(entries)
	if err != nil {
		panic(err) // even ranges tile the key space
	}
	return table
}

// Add counts a document. The error is that of package jsondoc, for what is no
// document; nothing is counted then.
func (s *Study) Add(doc []byte) error {
	if err := s.reader.check(doc); err != nil {
		return err
	}
	clear(s.values)
	s.selector.Select(doc, func(slot int, v jsondoc.Value) { s.values[slot] = v })
	t := tally{1, int64(len(doc))}
	s.total.add(t)
	var levels [partmap.MaxLevels]jsondoc.Value
	for i, c := range s.candidates {
		for j, slot := range s.slots[i] {
			levels[j] = s.values[slot]
		}
		c.add(t, levels[:len(s.slots[i])]...)
	}
	return nil
}

// Documents returns how many documents were counted.
func (s *Study) Documents() int64 { return s.total.documents }
