package keyadvice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Advice is which key to take.
type Advice struct {
	Take    string   `json:"take"`            // the key; "" if there are no candidates
	Verdict Verdict  `json:"verdict"`         // of that one
	Why     []Reason `json:"why"`             // for it first, then against it
	Instead []Other  `json:"others"`          // the other candidates
	Later   string   `json:"later,omitempty"` // what to do when it does not suffice any more
}

// Other is a candidate that was not taken.
type Other struct {
	Key string `json:"key"`
	Why string `json:"why"` // it was not
}

// compare orders the better candidate first, and says what is wrong with the
// other one. The order of the tests is the policy: it is described in
// docs/choosing-a-key.md.
func (r *Report) compare(a, b *Candidate) (order int, why string) {
	if a.Verdict > b.Verdict || a.Verdict == b.Verdict && r.rank(a, b) > 0 {
		_, why = r.compare(b, a)
		return 1, why
	}
	if a.Verdict < b.Verdict {
		return -1, fmt.Sprintf("%s. %s", b.Verdict, b.Reasons[0].Text)
	}
	if r.rank(a, b) == 0 {
		return 0, fmt.Sprintf("%s. By these figures as good as %s: let the queries decide.", b.Verdict, a.Key)
	}
	return -1, r.difference(a, b)
}

// rank compares candidates of one verdict.
func (r *Report) rank(a, b *Candidate) int {
	switch {
	case a.single() != b.single():
		return compareBool(a.single(), b.single())
	case r.TargetBytes > 0 && r.headroom(a) != r.headroom(b):
		return cmp.Compare(r.headroom(b), r.headroom(a))
	case a.alone() != b.alone():
		return compareBool(a.alone(), b.alone())
	case r.headroom(a) != r.headroom(b):
		return cmp.Compare(r.headroom(b), r.headroom(a))
	case len(a.Paths) != len(b.Paths):
		return cmp.Compare(len(a.Paths), len(b.Paths))
	case !about(a.FullestShare, b.FullestShare):
		return cmp.Compare(a.FullestShare, b.FullestShare)
	case !about(a.LargestShare, b.LargestShare):
		return cmp.Compare(a.LargestShare, b.LargestShare)
	}
	return 0
}

// single reports whether almost every document is alone, even by the first
// level of its key.
func (c *Candidate) single() bool { return c.alone() && c.grouped < singleItems }

// alone reports whether almost every document has a full key of its own, and no
// key has many of them.
func (c *Candidate) alone() bool {
	return c.average < singleItems && c.surely*float64(c.Logical) < manyTimes
}

// headroom is the size at which a logical partition is full; what is more than
// enough counts as enough.
func (r *Report) headroom(c *Candidate) int64 {
	enough := int64(comfortableUnknown)
	if r.TargetBytes > 0 {
		enough = comfortFactor * r.TargetBytes
	}
	if c.LimitBytes == 0 {
		return enough
	}
	return min(c.LimitBytes, enough)
}

// about reports whether shares differ by less than a tenth.
func about(a, b float64) bool { return max(a, b) < 1.1*min(a, b) }

// difference says why b, of the same verdict, ranks behind a.
func (r *Report) difference(a, b *Candidate) string {
	lead := b.Verdict.String() + ", "
	switch {
	case a.single() != b.single():
		return lead + "but it puts almost every document in a logical partition of its own, where " + a.Key + " keeps together what is read together. Take it only if every read names it."
	case (r.TargetBytes == 0 || r.headroom(a) == r.headroom(b)) && a.alone() != b.alone():
		return lead + "but almost every document has a full key of its own, so no two of them can change in one transaction; with " + a.Key + " some can."
	case r.headroom(a) != r.headroom(b):
		return lead + fmt.Sprintf("but its largest logical partition is full when the container holds %s; that of %s %s.", humanize.Bytes(b.LimitBytes), a.Key, whenFull(a))
	case len(a.Paths) != len(b.Paths):
		return lead + fmt.Sprintf("but each point read has to name %d values instead of %d. Its smaller logical partitions (full %s) are not needed before %s is short of room.", len(b.Paths), len(a.Paths), whenFull(b), a.Key)
	case !about(a.FullestShare, b.FullestShare):
		return lead + fmt.Sprintf("but it spreads less evenly: the fullest physical partition holds %s, with %s %s.", percent(b.FullestShare), a.Key, percent(a.FullestShare))
	}
	return lead + fmt.Sprintf("but its largest logical partition has %s of the bytes, that of %s %s.", percent(b.LargestShare), a.Key, percent(a.LargestShare))
}

// whenFull says when the largest logical partition is full.
func whenFull(c *Candidate) string {
	if c.LimitBytes == 0 {
		return "never"
	}
	return "at " + humanize.Bytes(c.LimitBytes)
}

// advise fills in the advice; the candidates are in order.
func (r *Report) advise() {
	r.Advice = Advice{Why: []Reason{}, Instead: []Other{}}
	if len(r.Candidates) == 0 {
		return
	}
	best := &r.Candidates[0]
	r.Advice.Take, r.Advice.Verdict = best.Key, best.Verdict
	r.Advice.Why = append(r.Advice.Why, best.Reasons...)
	slices.SortStableFunc(r.Advice.Why, func(a, b Reason) int { return cmp.Compare(a.Verdict, b.Verdict) })
	for i := range r.Candidates[1:] {
		c := &r.Candidates[1+i]
		_, why := r.compare(best, c)
		r.Advice.Instead = append(r.Advice.Instead, Other{c.Key, why})
	}
	r.Advice.Later = r.later(best)
}

// later says what helps where the best candidate does not, or not for ever.
func (r *Report) later(best *Candidate) string {
	if best.LimitBytes == 0 || len(best.Paths) > 1 || best.Verdict == Poor || best.Key == "/id" {
		return ""
	}
	deeper := best.Key + ",/id"
	for i := range r.Candidates[1:] {
		if c := &r.Candidates[1+i]; c.Verdict < Poor && c.divides() && len(c.Paths) > 1 && jsondoc.SamePaths(c.Paths[:1], best.Paths) {
			deeper = c.Key
			break
		}
	}
	return fmt.Sprintf("If one value of %s may outgrow %s or %s RU/s, take the hierarchical key %s: queries by %s still go to the few partitions that hold it, and each full key has these limits to itself.",
		best.Key, humanize.Bytes(int64(LogicalBytes)), humanize.Count(PartitionUnits), deeper, best.Key)
}

// percent returns a share: "37.5%", "3%", "0.02%", "0%".
func percent(share float64) string {
	if share == 0 {
		return "0%"
	}
	p := 100 * share
	decimals := 1
	switch {
	case p < 0.01:
		return "<0.01%"
	case p < 0.1:
		decimals = 2
	}
	text := strconv.FormatFloat(p, 'f', decimals, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

// Percent returns a share as the texts of this package have it.
func Percent(share float64) string { return percent(share) }

// formatEstimate returns a count, with ~ before what is estimated.
func formatEstimate(n int64, estimate bool) string {
	if estimate {
		return "~" + humanize.Count(n)
	}
	return humanize.Count(n)
}

func documentsHave(n int64, what string) string {
	if n == 1 {
		return "1 document has " + what
	}
	return humanize.Count(n) + " documents have " + what
}

func them(n int64) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
