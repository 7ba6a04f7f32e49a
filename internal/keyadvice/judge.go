package keyadvice

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/partmap"
)

// Verdict sums up a candidate. The better is the lower.
type Verdict int

// Verdicts.
const (
	Good   Verdict = iota // nothing speaks against it
	Usable                // something does
	Poor                  // it does not work for this data
)

// String returns the word for it.
func (v Verdict) String() string { return [...]string{"good", "usable", "poor"}[v] }

// MarshalJSON returns the word for it.
func (v Verdict) MarshalJSON() ([]byte, error) { return json.Marshal(v.String()) }

// Reason is a sentence for or against a candidate.
type Reason struct {
	Verdict Verdict `json:"verdict"` // the best that this leaves; Good speaks for it
	Text    string  `json:"text"`
}

// FirstLimit is the first limit of the model at which a container with this key
// refuses writes or requests.
type FirstLimit struct {
	Limit   string `json:"limit"`              // "key length", "key value", "logical partition throughput", "logical partition size" or "none"
	AtBytes int64  `json:"at_bytes,omitempty"` // size of the container at which it is met
	Met     bool   `json:"met"`                // at the target, or in the sample
}

// From these shares and numbers on something speaks against a key.
const (
	muchMissing   = 0.5  // documents without a value: poor
	someMissing   = 0.05 // usable
	veryUneven    = 3.0  // fullest physical partition over the average: poor
	uneven        = 1.5  // usable
	fewKeys       = 10   // logical for each physical partition: usable
	singleItems   = 1.5  // documents of a logical partition on average: usable, unless
	manyTimes     = 20   // the largest one has so many times the bytes of the average
	earlyLimit    = 2 * PhysicalBytes
	comfortFactor = 2 // the limit should be so many times the target
)

// judge finds reasons and verdicts, puts the best candidate first and says why
// it is.
func (r *Report) judge() {
	for i := range r.Candidates {
		c := &r.Candidates[i]
		c.First = r.firstLimit(c)
		r.weigh(c)
		slices.SortStableFunc(c.Reasons, func(a, b Reason) int { return cmp.Compare(b.Verdict, a.Verdict) })
		for _, reason := range c.Reasons {
			c.Verdict = max(c.Verdict, reason.Verdict)
		}
	}
	slices.SortStableFunc(r.Candidates, func(a, b Candidate) int {
		order, _ := r.compare(&a, &b)
		return order
	})
	r.advise()
	r.note()
}

func (r *Report) firstLimit(c *Candidate) FirstLimit {
	switch {
	case c.TooLong > 0:
		return FirstLimit{"key length", r.Bytes, true}
	case c.NotScalar > 0:
		return FirstLimit{"key value", r.Bytes, true}
	case r.Throughput > 0 && c.LimitBytes > 0 && c.LimitUnits < r.Throughput:
		return FirstLimit{"logical partition throughput", 0, true}
	case c.LimitBytes > 0:
		return FirstLimit{"logical partition size", c.LimitBytes, c.LimitBytes <= max(r.TargetBytes, r.Bytes)}
	}
	return FirstLimit{Limit: "none"}
}

// weigh collects the reasons for and against a candidate.
func (r *Report) weigh(c *Candidate) {
	say := func(v Verdict, format string, args ...any) {
		c.Reasons = append(c.Reasons, Reason{v, fmt.Sprintf(format, args...)})
	}
	if c.TooLong > 0 {
		say(Poor, "%s: a container refuses %s.", documentsHave(c.TooLong, "a key of more than "+humanize.Count(partmap.MaxString)+" bytes"), them(c.TooLong))
	}
	if c.NotScalar > 0 {
		say(Poor, "%s: a container refuses %s.", documentsHave(c.NotScalar, "an object, an array or a number out of range there"), them(c.NotScalar))
	}
	if c.Inexact > 0 {
		say(Poor, "%s: numbers are doubles, so neighbours get one key. Write them as strings.", documentsHave(c.Inexact, "a whole number of 2^53 or more there"))
	}
	if c.Logical == 0 {
		return
	}
	r.weighKeys(c, say)
	r.weighSize(c, say)
	r.weighSpread(c, say)
	if missing := c.UndefinedShare + c.NullShare; missing > 0 {
		what := "All documents without a value share one logical partition"
		if len(c.Paths) > 1 {
			what = "Documents without a value are not told apart by that level"
		}
		v := Good
		switch {
		case missing >= muchMissing && len(c.Paths) == 1:
			v = Poor
		case missing >= someMissing:
			v = Usable
		}
		if v > Good {
			say(v, "The property is missing in %s of the documents and null in %s. %s.", percent(c.UndefinedShare), percent(c.NullShare), what)
		} else {
			say(v, "Nearly every document has a value: it is missing in %s and null in %s.", percent(c.UndefinedShare), percent(c.NullShare))
		}
	}
}

// weighKeys looks at the number of logical partitions.
func (r *Report) weighKeys(c *Candidate, say func(Verdict, string, ...any)) {
	keys := formatEstimate(c.Logical, c.Estimate)
	switch n := int64(r.Partitions); {
	case r.Documents == 1:
		say(Usable, "A single document does not show how its values would divide others: give a larger sample.")
	case c.Logical == 1:
		say(Poor, "All documents have the same key. They are one logical partition, which is never divided.")
	case c.Logical < n:
		say(Poor, "Only %s different keys: of %d physical partitions at least %d stay empty.", keys, n, n-c.Logical)
	case c.Logical < fewKeys*n:
		say(Usable, "Only %s different keys for %d physical partitions: large lumps that do not spread evenly, and no more than %s partitions can ever share the work.", keys, n, keys)
	case c.alone() && !c.single():
		say(Usable, "Almost every document has a full key of its own (%s keys under %s of %s): no two documents can change in one transaction. Queries by %s still go to the few partitions that hold it.", keys, humanize.Plural(c.Firsts, "value", "values"), c.Paths[0], c.Paths[0])
	case c.alone():
		say(Usable, "Almost every document has a key of its own (%s keys): the load spreads perfectly and no limit is near, but only a read that names the key goes to one partition. Every other query asks all of them, and no two documents can change in one transaction.", keys)
	default:
		half := "at most " + humanize.Plural(c.Median, "document", "documents")
		if c.Median == 1 {
			half = "a single document"
		}
		under := ""
		if len(c.Paths) > 1 {
			under = fmt.Sprintf(" under %s of %s", humanize.Plural(c.Firsts, "value", "values"), c.Paths[0])
		}
		say(Good, "%s logical partitions%s: half of them have %s, the largest has %s (%s of all bytes).",
			keys, under, half, humanize.Count(c.Max), percent(c.LargestShare))
	}
	if !c.divides() {
		say(Usable, "The levels after the first add nothing: %s alone has %s.", c.Paths[0], humanize.Plural(c.Firsts, "value", "values"))
	}
	if c.Rising && c.average >= 2 {
		say(Usable, "Its values only rise from document to document, as dates and counters do. If that is the order in which documents are written, all new ones go to one logical partition at a time, and its %s RU/s are all that writing gets.", humanize.Count(PartitionUnits))
	}
}

// weighSize looks at the largest logical partition as the data grows.
func (r *Report) weighSize(c *Candidate, say func(Verdict, string, ...any)) {
	limit := humanize.Bytes(int64(LogicalBytes))
	then := float64(r.TargetBytes) * c.LargestShare
	switch {
	case c.LimitBytes == 0:
		if !c.alone() || r.Documents == 1 {
			break
		}
		say(Good, "Each logical partition is one document, so none grows towards the limit of %s.", limit)
	case c.LimitBytes <= r.TargetBytes:
		say(Poor, "The largest logical partition reaches its limit of %s when the container holds %s. From then on writes to it fail; at %s it would have %s.",
			limit, humanize.Bytes(c.LimitBytes), humanize.Bytes(r.TargetBytes), humanize.Bytes(then))
	case r.TargetBytes > 0 && c.LimitBytes < comfortFactor*r.TargetBytes:
		say(Usable, "Little room: at %s the largest logical partition has %s of the %s allowed.", humanize.Bytes(r.TargetBytes), humanize.Bytes(then), limit)
	case r.TargetBytes > 0:
		say(Good, "At %s the largest logical partition has %s of the %s allowed.", humanize.Bytes(r.TargetBytes), humanize.Bytes(then), limit)
	case c.LimitBytes < earlyLimit:
		say(Usable, "The largest logical partition reaches its limit of %s as soon as the container holds %s, if it keeps its share (%s).", limit, humanize.Bytes(c.LimitBytes), percent(c.LargestShare))
	default:
		say(Good, "The largest logical partition reaches its limit of %s when the container holds %s, if it keeps its share.", limit, humanize.Bytes(c.LimitBytes))
	}
	if r.Throughput == 0 || c.LargestShare == 0 || c.LimitBytes == 0 {
		return
	}
	wants := r.Throughput * c.LargestShare
	switch {
	case wants > PartitionUnits:
		say(Poor, "Of %s RU/s the largest logical partition would want %s if requests follow the bytes; it gets %s at most, the rest is refused (429).", humanize.Count(int64(r.Throughput)), humanize.Count(int64(wants)), humanize.Count(PartitionUnits))
	case wants > PartitionUnits/comfortFactor:
		say(Usable, "Of %s RU/s the largest logical partition wants %s of the %s allowed, if requests follow the bytes.", humanize.Count(int64(r.Throughput)), humanize.Count(int64(wants)), humanize.Count(PartitionUnits))
	}
}

// weighSpread looks at the physical partitions.
func (r *Report) weighSpread(c *Candidate, say func(Verdict, string, ...any)) {
	over := c.FullestShare * float64(r.Partitions)
	even := 1 / float64(r.Partitions)
	switch {
	case c.Logical < int64(r.Partitions) || over < 1.01:
	case over >= uneven && len(c.Paths) > 1:
		say(Usable, "Uneven to begin with: the fullest of %d physical partitions holds %s where %s is even. Splits can cut inside a value of the first level, so this gets better as the container grows.", r.Partitions, percent(c.FullestShare), percent(even))
	case over >= veryUneven:
		say(Poor, "Very uneven: the fullest of %d physical partitions holds %s where %s is even. Throughput is divided evenly, so only %s of it can be used.", r.Partitions, percent(c.FullestShare), percent(even), percent(c.UsableUnits))
	case over >= uneven:
		say(Usable, "Uneven: the fullest of %d physical partitions holds %s where %s is even. Throughput is divided evenly, so only %s of it can be used.", r.Partitions, percent(c.FullestShare), percent(even), percent(c.UsableUnits))
	default:
		say(Good, "Spread over %d physical partitions the fullest holds %s, where %s is even.", r.Partitions, percent(c.FullestShare), percent(even))
	}
}

// note adds what is to be known of the sample as a whole.
func (r *Report) note() {
	r.Notes = []string{}
	say := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if r.Documents < smallSample {
		say("A sample of %s is small: take the shares as rough.", humanize.Plural(r.Documents, "document", "documents"))
	}
	if r.NoID > 0 {
		say("%s: each document needs one before it is stored, a string of 1 to 1,023 bytes.", documentsHave(r.NoID, "no usable id"))
	}
	if r.TooLarge > 0 {
		say("%s: the service refuses %s.", documentsHave(r.TooLarge, "more than "+humanize.Bytes(MaxDocument)), them(r.TooLarge))
	}
	if needed := (r.TargetBytes + PhysicalBytes - 1) / PhysicalBytes; needed > int64(r.Partitions) {
		say("At %s each, %s needs at least %s: see the spread over them with --partitions.",
			humanize.Bytes(int64(PhysicalBytes)), humanize.Bytes(r.TargetBytes), humanize.Plural(needed, "physical partition", "physical partitions"))
	}
	var names []string
	var keysError, sizeError float64
	for i := range r.Candidates {
		if c := &r.Candidates[i]; c.Estimate {
			names = append(names, c.Key)
			keysError, sizeError = max(keysError, 2*c.Error), max(sizeError, largestError(c, r.Bytes))
		}
	}
	if len(names) > 0 {
		say("More keys than are counted one by one: %s. Numbers with ~ are estimates there (the number of keys within %s), and the largest ones may have %s less of the bytes.",
			strings.Join(names, "; "), percent(keysError), percent(sizeError))
	}
}

// largestError returns the largest error in the sizes of the largest logical
// partitions, as a share of all bytes.
func largestError(c *Candidate, bytes int64) float64 {
	var most int64
	for _, l := range c.Largest {
		most = max(most, l.Error)
	}
	return share(most, bytes)
}
