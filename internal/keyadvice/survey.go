package keyadvice

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/partmap"
)

// Survey looks for properties of documents that may serve as a partition key:
// scalars at most maxFieldDepth names deep. It follows the first maxFields of
// them that it meets.
type Survey struct {
	options Options
	reader  *reader
	table   *partmap.Table
	paths   *tree
	fields  []*field
	total   tally
}

// field is a property.
type field struct {
	*candidate
	member     string // its last name, without quotes
	fractions  int64  // values that are no whole numbers
	numbers    int64
	strings    int64
	stringSize int64
}

// NewSurvey returns a survey with options for the study that follows.
func NewSurvey(o Options) *Survey {
	o = o.withDefaults()
	return &Survey{options: o, reader: newReader(), table: evenTable(o.Partitions), paths: newTree()}
}

// Add looks at a document. The error is that of package jsondoc, for what is no
// document.
func (s *Survey) Add(doc []byte) error {
	if err := s.reader.check(doc); err != nil {
		return err
	}
	t := tally{1, int64(len(doc))}
	s.total.add(t)
	s.walk(doc, 0, nil, 1, t)
	return nil
}

// Documents returns how many documents were seen.
func (s *Survey) Documents() int64 { return s.total.documents }

func (s *Survey) walk(object []byte, at int, path jsondoc.Path, depth int, t tally) {
	jsondoc.Members(object, func(name []byte, v jsondoc.Value) {
		next, known := s.paths.nodes[at].members[string(name)]
		if !known {
			if len(s.paths.nodes) > 2*maxFields {
				return
			}
			next = s.paths.member(at, string(name))
		}
		switch v.Kind {
		case jsondoc.KindObject:
			if depth < maxFieldDepth {
				s.walk(v.Text, next, append(path, jsondoc.Step{Name: string(name)}), depth+1, t)
			}
			return
		case jsondoc.KindArray:
			return
		}
		slot := s.paths.nodes[next].slot
		if slot < 0 {
			if len(s.fields) == maxFields {
				return
			}
			slot = len(s.fields)
			s.paths.nodes[next].slot = slot
			full := append(path, jsondoc.Step{Name: string(name)}).String()
			s.fields = append(s.fields, &field{member: string(name), candidate: newCandidate([]string{full}, s.table, surveyKeys, surveyHeavy)})
		}
		s.fields[slot].note(v, t)
	})
}

// note counts a value.
func (f *field) note(v jsondoc.Value, t tally) {
	f.add(t, v)
	switch v.Kind {
	case jsondoc.KindString:
		f.strings++
		f.stringSize += int64(len(v.Text) - 2)
		if isFraction(v.Text[1 : len(v.Text)-1]) {
			f.fractions++
		}
	case jsondoc.KindNumber:
		f.numbers++
		if bytes.ContainsAny(v.Text, ".eE") {
			f.fractions++
		}
	}
}

// isFraction reports whether text is a number with a decimal point.
func isFraction(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("-"))
	points := 0
	for _, c := range text {
		switch {
		case c == '.':
			points++
		case c < '0' || c > '9':
			return false
		}
	}
	return points == 1 && len(text) > 1
}

const longText = 100 // bytes on average of strings that are no keys

// Propose returns the best candidates, best first: single properties that most
// documents have, then hierarchical keys of them. There is at least one.
func (s *Survey) Propose() [][]string {
	r := &Report{Documents: s.total.documents, Bytes: s.total.bytes, Partitions: s.options.Partitions, TargetBytes: s.options.TargetBytes, Throughput: s.options.Throughput}
	quantities := make(map[string]bool)
	for _, f := range s.fields {
		if !f.fits(s.total.documents) {
			continue
		}
		if missing := s.total.documents - f.total.documents - f.tooLong - f.notScalar; missing > 0 {
			f.add(tally{missing, max(s.total.bytes-f.total.bytes, 0)}, jsondoc.Value{})
		}
		d := f.describe(1)
		if d.Logical < 2 {
			continue
		}
		quantities[d.Key] = f.isQuantity()
		r.Candidates = append(r.Candidates, d)
	}
	isQuantity := func(c Candidate) bool { return quantities[c.Key] }
	if !slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return !isQuantity(c) }) {
		clear(quantities) // there is nothing else
	}
	r.Candidates = slices.DeleteFunc(r.Candidates, isQuantity)
	r.judge()
	slices.SortStableFunc(r.Candidates, func(a, b Candidate) int { return cmp.Compare(a.Verdict, b.Verdict) })
	singles := distinct(r.Candidates)
	var keys [][]string
	for _, c := range singles[:min(len(singles), maxProposals)] {
		keys = append(keys, c.Paths)
	}
	if len(keys) == 0 {
		return [][]string{{"/id"}}
	}
	return append(keys, pairs(singles)...)
}

// fits reports whether a property can be a key by the look of it.
func (f *field) fits(documents int64) bool {
	present := f.total.documents - f.levels[0].null
	switch {
	case 2*present < documents,
		100*f.fractions > documents,
		f.strings > 0 && f.stringSize/f.strings > longText && f.paths[0] != "/id",
		f.tooLong > 0 || f.notScalar > 0:
		return false
	}
	return true
}

// isQuantity reports whether a property holds dates, or numbers under a name
// that does not speak of an identifier: quantities, by which documents are
// sorted or summed rather than asked for.
func (f *field) isQuantity() bool {
	if f.strings > 0 && 20*f.order.other < f.strings {
		return true
	}
	if f.numbers <= f.strings {
		return false
	}
	name := strings.ToLower(f.member)
	for _, end := range []string{"id", "no", "nr", "num", "number", "code", "key", "year"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	return true
}

// distinct leaves out what says the same as a candidate before it: properties
// that divide the documents in the same way, as a code and a number of one
// thing do, and of those that are different in each document all but one, the
// id if it is there.
func distinct(list []Candidate) []Candidate {
	var out []Candidate
	single := -1
	for i := range list {
		c := &list[i]
		if c.alone() {
			if single < 0 {
				single = len(out)
				out = append(out, *c)
			} else if c.Key == "/id" {
				out[single] = *c
			}
			continue
		}
		if !slices.ContainsFunc(out, func(o Candidate) bool { return alike(&o, c) }) {
			out = append(out, *c)
		}
	}
	return out
}

// alike reports whether two properties seem to divide documents in the same way.
func alike(a, b *Candidate) bool {
	near := func(x, y float64) bool { return max(x, y) <= 1.02*min(x, y) }
	return near(float64(a.Logical), float64(b.Logical)) && near(a.LargestShare, b.LargestShare)
}

// pairs returns hierarchical keys that begin with the best property that keeps
// documents together: with the next ones as the second level, and with the id.
// Whether these divide it any further is found out by the study.
func pairs(singles []Candidate) [][]string {
	first := slices.IndexFunc(singles, func(c Candidate) bool {
		return !c.alone() && c.UndefinedShare+c.NullShare < someMissing
	})
	if first < 0 {
		return nil
	}
	lead := singles[first].Paths[0]
	var keys [][]string
	for _, c := range singles[first+1:] {
		if !c.alone() && c.Logical >= fewKeys && c.UndefinedShare+c.NullShare < someMissing && !leadsThrough(lead, c.Paths[0]) {
			if keys = append(keys, []string{lead, c.Paths[0]}); len(keys) == maxPairs {
				break
			}
		}
	}
	if lead != "/id" {
		keys = append(keys, []string{lead, "/id"})
	}
	return keys
}

// leadsThrough reports whether one path leads through the other, which no key
// definition may have.
func leadsThrough(a, b string) bool {
	return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/")
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
