package keyadvice

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/partmap"
)

// study counts documents by candidates, each written with commas.
func study(t *testing.T, o Options, docs []string, keys ...string) *Report {
	t.Helper()
	var paths [][]string
	for _, key := range keys {
		paths = append(paths, jsondoc.SplitPaths(key))
	}
	s, err := NewStudy(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		if err := s.Add([]byte(doc)); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
	}
	return s.Report()
}

func candidateOf(t *testing.T, r *Report, key string) *Candidate {
	t.Helper()
	for i := range r.Candidates {
		if r.Candidates[i].Key == key {
			return &r.Candidates[i]
		}
	}
	t.Fatalf("no candidate %s", key)
	return nil
}

// makeDocs makes documents from their number.
func makeDocs(n int, format func(i int) string) []string {
	docs := make([]string, n)
	for i := range docs {
		docs[i] = format(i)
	}
	return docs
}

// TestMostBytes: sizes that are computed are bounded, however small a share is and however much the sample is to grow.
func TestMostBytes(t *testing.T) {
	c := newCandidate([]string{"/k"}, evenTable(1), 10, 1)
	c.add(tally{2, 100}, jsondoc.Value{})
	c.total = tally{1e10, 1e12} // as with very many other keys
	c.physical[0] = c.total
	if d := c.describe(1); d.LimitBytes != mostBytes {
		t.Errorf("a logical partition with %g of the bytes is full at %d", d.LargestShare, d.LimitBytes)
	}
	if r := study(t, Options{Growth: 1e300}, []string{`{"id":"1","k":1}`, `{"id":"2","k":2}`}, "/k"); r.TargetBytes != mostBytes {
		t.Errorf("judged for %d bytes", r.TargetBytes)
	}
}

// All that is counted of a candidate, against a plain count.
func TestCounts(t *testing.T) {
	docs := makeDocs(3000, func(i int) string {
		switch i % 10 {
		case 0:
			return fmt.Sprintf(`{"id":"%d","a":{"b":null}}`, i)
		case 1:
			return fmt.Sprintf(`{"id":"%d","a":7}`, i)
		}
		return fmt.Sprintf(`{"a":{"b":"k%d"},"id":"%d","n":%d}`, i%97, i, i%13)
	})
	r := study(t, Options{Partitions: 5, Top: 3}, docs, "/a/b", "/n,/a/b")
	table := evenTable(5)
	for _, key := range []string{"/a/b", "/n,/a/b"} {
		sizes, physical := make(map[partmap.Key]tally), make([]tally, 5)
		var scanner jsondoc.Scanner
		var out jsondoc.Doc
		paths, err := jsondoc.Compile(jsondoc.SplitPaths(key))
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			if err := scanner.Scan([]byte(doc), paths, jsondoc.Limits{}, &out); err != nil {
				t.Fatal(err)
			}
			k, err := partmap.FromEncoded(out.PK)
			if err != nil {
				t.Fatal(err)
			}
			more := tally{1, int64(len(doc))}
			sum := sizes[k]
			sum.add(more)
			sizes[k] = sum
			epk := k.EPK()
			physical[table.Find(&epk)].add(more)
		}
		c := candidateOf(t, r, key)
		if c.Logical != int64(len(sizes)) || c.Estimate || len(c.Largest) != 3 {
			t.Errorf("%s: %d logical partitions, want %d", key, c.Logical, len(sizes))
		}
		for i, p := range c.Physical {
			if p.Documents != physical[i].documents || p.Bytes != physical[i].bytes {
				t.Errorf("%s: physical partition %d: %+v, want %+v", key, i+1, p, physical[i])
			}
		}
		var most int64
		for _, sum := range sizes {
			most = max(most, sum.bytes)
		}
		for i, l := range c.Largest {
			if sum := sizes[l.Key]; sum.documents != l.Documents || sum.bytes != l.Bytes || i == 0 && l.Bytes != most {
				t.Errorf("%s: largest %d: %+v, want %+v", key, i, l, sum)
			}
		}
	}
	c := candidateOf(t, r, "/a/b")
	if c.UndefinedShare != 0.1 || c.NullShare != 0.1 || c.LongestString != 3 || c.Largest[0].Documents != 300 {
		t.Errorf("missing values: %+v", c)
	}
	if c := candidateOf(t, r, "/n,/a/b"); c.Firsts != 14 || c.UndefinedShare != 0.2 {
		t.Errorf("levels: %d first values, %v undefined", c.Firsts, c.UndefinedShare)
	}
}

func TestRefusedKeys(t *testing.T) {
	docs := []string{
		`{"id":"1","k":"` + strings.Repeat("x", partmap.MaxString) + `"}`,
		`{"id":"2","k":"` + strings.Repeat("x", partmap.MaxString+1) + `"}`,
		`{"id":"3","k":{"x":1}}`, `{"id":"4","k":[1]}`, `{"id":"5","k":1e999}`,
		`{"k":1}`, `{"id":7,"k":1}`, `{"id":"","k":1}`,
		`{"id":"8","k":"` + strings.Repeat("y", 10) + `","pad":"` + strings.Repeat("x", MaxDocument) + `"}`,
	}
	r := study(t, Options{}, docs, "/k")
	c := candidateOf(t, r, "/k")
	if c.TooLong != 1 || c.NotScalar != 3 || c.LongestString != partmap.MaxString+1 || c.Logical != 3 || r.NoID != 3 || r.TooLarge != 1 {
		t.Errorf("%+v, %d without id, %d too large", c, r.NoID, r.TooLarge)
	}
	if c.Verdict != Poor || c.First.Limit != "key length" || !c.First.Met {
		t.Errorf("verdict %v, %+v", c.Verdict, c.First)
	}
	if len(r.Notes) != 3 {
		t.Errorf("notes: %q", r.Notes)
	}
}

func TestBadDocuments(t *testing.T) {
	s, err := NewStudy([][]string{{"/k"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for doc, kind := range map[string]error{
		`{"id":"1"`: jsondoc.ErrSyntax, `[]`: jsondoc.ErrNotObject, `{"a":1,"a":2}`: jsondoc.ErrDuplicateName, "{\"a\":\"\xff\"}": jsondoc.ErrUTF8,
	} {
		if err := s.Add([]byte(doc)); !errors.Is(err, kind) {
			t.Errorf("%s: %v", doc, err)
		}
	}
	if s.Documents() != 0 {
		t.Errorf("%d documents counted", s.Documents())
	}
	for _, paths := range [][]string{nil, {"k"}, {"/a", "/a"}, {"/a", "/b", "/c", "/d"}} {
		if _, err := NewStudy([][]string{paths}, Options{}); err == nil {
			t.Errorf("%q is accepted", paths)
		}
	}
	if r := study(t, Options{}, nil, "/k"); r.Advice.Take != "/k" || r.Candidates[0].Logical != 0 {
		t.Errorf("nothing read: %+v", r)
	}
}

// Each reason against a key, by documents that give it.
func TestVerdicts(t *testing.T) {
	even := makeDocs(5000, func(i int) string {
		return fmt.Sprintf(`{"id":"%d","tenant":"t%d","user":"u%d","two":%d,"day":%d,"one":1,"some":%s,"twenty":"x%d","hot":"%s"}`,
			i, i%500, i%700, i%2, i/100, []string{"null", fmt.Sprintf(`"s%d"`, i%301)}[min(i%7, 1)], i%20,
			[]string{"all", fmt.Sprint(i)}[min(i%4, 1)])
	})
	f := func(key string, o Options, verdict Verdict, text string) {
		t.Helper()
		c := candidateOf(t, study(t, o, even, key), key)
		if c.Verdict != verdict || !slices.ContainsFunc(c.Reasons, func(r Reason) bool { return strings.Contains(r.Text, text) }) {
			t.Errorf("%s: %v, want %v and %q: %+v", key, c.Verdict, verdict, text, c.Reasons)
		}
	}
	f("/tenant", Options{}, Good, "500 logical partitions")
	f("/tenant,/user", Options{}, Usable, "Almost every document has a full key")
	f("/id", Options{}, Usable, "Almost every document has a key of its own")
	f("/two", Options{}, Poor, "Only 2 different keys")
	f("/one", Options{}, Poor, "never divided")
	f("/day", Options{}, Usable, "only rise")
	f("/some", Options{}, Usable, "null in 14.3%")
	f("/twenty", Options{}, Usable, "Only 20 different keys")
	f("/absent", Options{}, Poor, "missing in 100%")
	f("/hot", Options{}, Usable, "as soon as the container holds")
	f("/tenant", Options{TargetBytes: 1 << 40}, Good, "At 1.00 TiB")
	f("/tenant", Options{TargetBytes: 8 << 40}, Usable, "Little room")
	f("/tenant", Options{TargetBytes: 20 << 40, Partitions: 8}, Poor, "From then on writes to it fail")
	f("/tenant", Options{Throughput: 1e6, Partitions: 8}, Good, "500 logical")
	f("/tenant", Options{Throughput: 1e7, Partitions: 8}, Poor, "429")
	f("/twenty,/tenant", Options{}, Usable, "to begin with")
}

// TestNothingGrows: where each logical partition is one document, a share of the sample is no
// share of the container, and no limit is met.
func TestNothingGrows(t *testing.T) {
	docs := makeDocs(1000, func(i int) string { return fmt.Sprintf(`{"id":"%d","k":%d}`, i, i%100) })
	r := study(t, Options{Throughput: 1e8}, docs, "/id", "/k")
	if c := candidateOf(t, r, "/id"); c.First.Limit != "none" || c.First.Met {
		t.Errorf("/id: %+v", c.First)
	}
	if c := candidateOf(t, r, "/k"); c.First.Limit != "logical partition throughput" || !c.First.Met {
		t.Errorf("/k: %+v", c.First)
	}
}

// A single document says nothing for or against a key that it has.
func TestSingleDocument(t *testing.T) {
	r := study(t, Options{}, []string{`{"id":"1","tenant":"t"}`}, "/id", "/tenant", "/absent")
	for _, key := range []string{"/id", "/tenant"} {
		c := candidateOf(t, r, key)
		if c.Verdict != Usable || len(c.Reasons) != 1 || !strings.HasPrefix(c.Reasons[0].Text, "A single document") {
			t.Errorf("%s: %v, %+v", key, c.Verdict, c.Reasons)
		}
	}
	if c := candidateOf(t, r, "/absent"); c.Verdict != Poor {
		t.Errorf("a key that is missing is %v", c.Verdict)
	}
}

// Estimates give the same verdict.
func TestVerdictOfEstimates(t *testing.T) {
	docs := makeDocs(50_000, func(i int) string {
		return fmt.Sprintf(`{"id":"%05d","tenant":"t%d","hot":"%s"}`, i, i%700, []string{"all", fmt.Sprint(i)}[min(i%4, 1)])
	})
	r := study(t, Options{MaxKeys: 1000}, docs, "/id", "/tenant", "/tenant,/id", "/hot")
	for key, alone := range map[string]bool{"/id": true, "/tenant": false, "/tenant,/id": true, "/hot": false} {
		c := candidateOf(t, r, key)
		if c.alone() != alone || c.Estimate != (key != "/tenant") || alone != (c.LimitBytes == 0) {
			t.Errorf("%s: alone %v, %+v", key, c.alone(), c)
		}
	}
	if r.Advice.Take != "/tenant" || len(r.Notes) != 1 {
		t.Errorf("take %s: %q", r.Advice.Take, r.Notes)
	}
	c := candidateOf(t, r, "/hot")
	if l := c.Largest[0]; l.Documents != 12_500 || l.Error != 0 {
		t.Errorf("largest: %+v", l)
	}
}

// Which key is taken, and why not the others.
func TestAdvice(t *testing.T) {
	docs := makeDocs(4000, func(i int) string {
		return fmt.Sprintf(`{"id":"%d","tenant":"t%d","user":"u%d","region":"r%d"}`, i, i%400, i%1600, i%90)
	})
	f := func(want string, o Options, keys ...string) *Report {
		t.Helper()
		for range 2 {
			r := study(t, o, docs, keys...)
			if r.Advice.Take != want || len(r.Advice.Instead) != len(keys)-1 || r.Candidates[0].Key != want {
				t.Errorf("%q: take %q: %+v", keys, r.Advice.Take, r.Advice)
			}
			slices.Reverse(keys)
		}
		return study(t, o, docs, keys...)
	}
	f("/tenant", Options{}, "/tenant", "/id", "/tenant,/user", "/region")
	f("/region", Options{}, "/region", "/absent")
	// What a single level cannot hold, a hierarchical key can.
	r := f("/tenant,/id", Options{TargetBytes: 40 << 40, Partitions: 8}, "/tenant", "/region", "/tenant,/id", "/id")
	if why := r.Advice.Instead[len(r.Advice.Instead)-1].Why; !strings.HasPrefix(why, "poor. The largest logical partition") {
		t.Errorf("why not: %s", why)
	}
	if r := study(t, Options{}, docs, "/tenant"); !strings.Contains(r.Advice.Later, "/tenant,/id") {
		t.Errorf("later: %s", r.Advice.Later)
	}
}

func TestLimits(t *testing.T) {
	docs := makeDocs(1000, func(i int) string { return fmt.Sprintf(`{"id":"%03d","k":%d}`, i, 1000+i%100) })
	r := study(t, Options{Growth: 10, Partitions: 4}, docs, "/k")
	c := &r.Candidates[0]
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-6*want }
	if r.TargetBytes != 10*r.Bytes || c.LargestShare != 0.01 || !near(float64(c.LimitBytes), 100*LogicalBytes) || !near(c.LimitUnits, 1e6) {
		t.Errorf("%+v", c)
	}
	if !near(float64(c.SplitBytes), PhysicalBytes/c.FullestShare) || !near(c.UsableUnits, 0.25/c.FullestShare) || c.First.Limit != "logical partition size" || c.First.Met {
		t.Errorf("%+v", c)
	}
	for o, want := range map[Options]int{
		{}: 8, {TargetBytes: 1 << 40}: 21, {TargetBytes: 1}: 8, {Throughput: 120_000}: 12, {Throughput: 120_001}: 13, {Partitions: 3, TargetBytes: 1 << 40}: 3, {TargetBytes: 1 << 60}: 256,
	} {
		if got := o.withDefaults().Partitions; got != want {
			t.Errorf("%+v: %d partitions, want %d", o, got, want)
		}
	}
}

func TestPropose(t *testing.T) {
	docs := makeDocs(3000, func(i int) string {
		user := fmt.Sprintf(`{"id":"u%d","more":{"deep":{"deeper":1}}}`, i%300)
		rare := ""
		if i%3 == 0 {
			rare = `,"rare":"x"`
		}
		return fmt.Sprintf(`{"id":"%d","user":%s,"userName":"n%d","city":"c%d","price":%d.5,"amount":%d,"text":%q,"kind":"order","tags":["a"],"at":"2024-01-%02dT00:00:%02dZ"%s}`,
			i, user, i%300, i%700, i%500, i%350, strings.Repeat("lorem ipsum ", 10)+fmt.Sprint(i%40), i%28+1, i%30, rare)
	})
	s := NewSurvey(Options{})
	for _, doc := range docs {
		if err := s.Add([]byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, paths := range s.Propose() {
		got = append(got, strings.Join(paths, ","))
	}
	want := []string{"/city", "/user/id", "/id", "/city,/user/id", "/city,/id"}
	if !slices.Equal(got, want) {
		t.Errorf("proposed %q, want %q", got, want)
	}
	if err := s.Add([]byte(`{`)); err == nil {
		t.Error("no document is accepted")
	}
	if got := NewSurvey(Options{}).Propose(); len(got) != 1 || got[0][0] != "/id" {
		t.Errorf("of nothing: %q", got)
	}
}

// TestProposeQuoted: the path of a member whose name needs quotes is one that a study takes.
func TestProposeQuoted(t *testing.T) {
	s := NewSurvey(Options{})
	docs := makeDocs(3000, func(i int) string { return fmt.Sprintf(`{"id":1,"of/from,to":{"*":"c%d"}}`, i%300) })
	for _, doc := range docs {
		if err := s.Add([]byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	path := `/"of/from,to"/"*"`
	if got := s.Propose(); !slices.Equal(got[0], []string{path}) {
		t.Fatalf("proposed %q", got)
	}
	if c := candidateOf(t, study(t, Options{}, docs, path), path); c.Logical != 300 || c.UndefinedShare != 0 {
		t.Errorf("%d logical partitions, %v undefined", c.Logical, c.UndefinedShare)
	}
}

// TestProposeQuotedNumber: numbers under a name of an identifier are proposed, also if the path has the name in quotes.
func TestProposeQuotedNumber(t *testing.T) {
	s := NewSurvey(Options{})
	for _, doc := range makeDocs(3000, func(i int) string { return fmt.Sprintf(`{"id":"%d","order/id":%d}`, i, i%300) }) {
		if err := s.Add([]byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Propose(); !slices.Equal(got[0], []string{`/"order/id"`}) {
		t.Errorf("proposed %q", got)
	}
}

// Documents with names without end do not take memory without end.
func TestSurveyIsBounded(t *testing.T) {
	s := NewSurvey(Options{})
	for i := range 2000 {
		if err := s.Add(fmt.Appendf(nil, `{"id":"%d","x%d":%d,"o":{"y%d":1}}`, i, i, i, i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.fields) > maxFields || len(s.paths.nodes) > 2*maxFields+1 {
		t.Errorf("%d fields, %d nodes", len(s.fields), len(s.paths.nodes))
	}
	if got := s.Propose(); len(got) != 1 {
		t.Errorf("proposed %q", got)
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0%", 1: "100%", 0.125: "12.5%", 0.03: "3%", 0.0002: "0.02%", 0.00001: "<0.01%", 0.9996: "100%", 0.5049: "50.5%"} {
		if got := Percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}

// TestNamesWithCommas: keys of other paths have other names, also where the name of a member has a comma; and the hierarchical key
// that helps a key later begins with its path.
func TestNamesWithCommas(t *testing.T) {
	docs := makeDocs(4000, func(i int) string {
		return fmt.Sprintf(`{"id":"%d","a,":{"b":%d},"a":"t%d","b":"u%d"}`, i, i%7, i%400, i%1600)
	})
	judged := func(keys ...[]string) *Report {
		t.Helper()
		s, err := NewStudy(keys, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			if err = s.Add([]byte(doc)); err != nil {
				t.Fatal(err)
			}
		}
		return s.Report()
	}
	keys := [][]string{{"/a,/b"}, {"/a", "/b"}}
	r := judged(keys...)
	if x, y := r.Candidates[0], r.Candidates[1]; x.Key == y.Key {
		t.Errorf("%q and %q are both %q", x.Paths, y.Paths, x.Key)
	}
	for _, c := range r.Candidates {
		if paths := jsondoc.SplitPaths(c.Key); !jsondoc.SamePaths(paths, c.Paths) {
			t.Errorf("%s names %q, not %q", c.Key, paths, c.Paths)
		}
	}
	for _, deeper := range [][]string{{"/a,/b", "/id"}, {`/"a"`, "/b"}} {
		r = judged([]string{"/a"}, deeper)
		helps := len(deeper[0]) == 4
		if took := strings.Contains(r.Advice.Later, "the hierarchical key "+jsondoc.JoinPaths(deeper)+":"); r.Advice.Take != "/a" || took != helps {
			t.Errorf("beside %q: %+v", deeper, r.Advice)
		}
	}
}
