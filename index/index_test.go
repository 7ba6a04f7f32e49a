package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// tempFiles makes temporary files.
type tempFiles struct {
	fs *vfs.Mem
	n  int
}

func newTempFiles() *tempFiles { return &tempFiles{fs: vfs.NewMem()} }

func (f *tempFiles) create() (vfs.File, error) {
	f.n++
	return f.fs.Create(fmt.Sprint(f.n, ".tmp"))
}

// expected returns the terms of documents by way of encoding/json.
func expected(t testing.TB, c *Compiled, docs []string) map[string][]uint32 {
	want := make(map[string][]uint32)
	for o, doc := range docs {
		if doc == "" {
			continue
		}
		seen := make(map[string]bool) // two strings may be cut to one term
		for f := range facts(t, c, doc) {
			key := string(appendTerm(nil, mustPath(t, f.path), f.valueOf()))
			if !seen[key] {
				seen[key] = true
				want[key] = append(want[key], uint32(o))
			}
		}
	}
	return want
}

var testPolicies = []Policy{
	All(),
	{Include: []string{"/a/?", "/b/[]/*"}},
	{Include: []string{"/*"}, Exclude: []string{"/a/*", "/b/?", "/c/[]/?"}},
	{Include: []string{"/a/b/?", "/*"}, Exclude: []string{"/a/*", `/"a/b"/*`}},
}

// TestIndex compares indexes of random documents with what encoding/json finds
// in them: built at once, in several runs on disk, and merged from parts.
func TestIndex(t *testing.T) {
	seed := randtest.Seed(t)
	n := 40
	if testing.Short() {
		n = 2 * len(testPolicies)
	}
	for i := range n {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		g := &generator{Rand: rng}
		c := mustCompile(t, testPolicies[i%len(testPolicies)])
		docs := make([]string, 1+rng.IntN(2500))
		for o := range docs {
			if rng.IntN(20) > 0 {
				docs[o] = g.document()
			}
		}
		want := expected(t, c, docs)
		whole := build(t, c, docs, 0, newTempFiles())
		r := mustOpen(t, whole)
		compare(t, "built at once", content(t, r), want)
		if got, err := r.Policy(); err != nil || got.Empty() || r.Info().Fingerprint != c.Fingerprint() || int(r.Info().Items) != len(docs) {
			t.Fatalf("policy %v, %v, info %+v", got, err, r.Info())
		}
		spills := newTempFiles()
		spilled := build(t, c, docs, 64<<10, spills)
		compare(t, "in several runs", content(t, mustOpen(t, spilled)), want)
		if len(docs) > 2000 && spills.n == 0 && i%len(testPolicies) == 0 {
			t.Error("nothing was written to a temporary file")
		}
		lookups(t, g, r, want)
		spans(t, g, r, want, uint32(len(docs)))
		merged(t, g, c, docs)
	}
}

func compare(t *testing.T, how string, got, want map[string][]uint32) {
	t.Helper()
	for key, list := range want {
		if !slices.Equal(got[key], list) {
			t.Fatalf("%s: term %q: %v, not %v", how, key, got[key], list)
		}
	}
	for key := range got {
		if want[key] == nil {
			term, ok := DecodeTerm([]byte(key))
			t.Fatalf("%s: term %q (%v, %t) is in no document", how, key, term, ok)
		}
	}
}

func lookups(t *testing.T, g *generator, r *Reader, want map[string][]uint32) {
	for key, list := range want {
		p, ok, err := r.Lookup([]byte(key))
		if err != nil || !ok {
			t.Fatalf("%q: %t, %v", key, ok, err)
		}
		if got, err := p.AppendTo(nil); err != nil || !slices.Equal(got, list) {
			t.Fatalf("%q: %v, %v", key, got, err)
		}
		if other := key[:g.IntN(len(key)+1)] + string(rune(g.IntN(128))); want[other] == nil {
			if _, ok, err := r.Lookup([]byte(other)); ok || err != nil {
				t.Fatalf("%q, which is no term: %t, %v", other, ok, err)
			}
		}
	}
}

// spans compares ranges of terms, in both directions, with the sorted list.
func spans(t *testing.T, g *generator, r *Reader, want map[string][]uint32, items uint32) {
	keys := slices.Sorted(maps.Keys(want))
	if len(keys) == 0 {
		return
	}
	for range 50 {
		from, to := keys[g.IntN(len(keys))], keys[g.IntN(len(keys))]
		switch g.IntN(3) {
		case 0:
			to += "\x00"
		case 1:
			from = from[:len(from)-1]
		}
		i, _ := slices.BinarySearch(keys, from)
		end, _ := slices.BinarySearch(keys, to)
		end = max(end, i)
		lo := g.Uint32N(items + 1)
		hi := lo + g.Uint32N(items-lo+1)
		var ref, got Set
		ref.Reset(lo, hi)
		got.Reset(lo, hi)
		postings := 0
		for _, key := range keys[i:end] {
			postings += len(want[key])
			for _, o := range want[key] {
				ref.Add(o)
			}
		}
		s := Span{From: []byte(from), To: []byte(to)}
		if err := r.Union(context.Background(), s, &got); err != nil || !slices.Equal(got.AppendTo(nil), ref.AppendTo(nil)) {
			t.Fatalf("union of %q to %q: %v", from, to, err)
		}
		if terms, n, err := r.Count(context.Background(), s); err != nil || int(terms) != end-i || int(n) != postings {
			t.Fatalf("%q to %q: %d terms, %d postings, %v", from, to, terms, n, err)
		}
		c := r.Cursor()
		at := i
		for ok := c.Seek(s.From); ok && at < len(keys) && at < i+300; ok = c.Next() {
			if string(c.Key()) != keys[at] {
				t.Fatalf("from %q on: %q, not %q", from, c.Key(), keys[at])
			}
			at++
		}
		end, _ = slices.BinarySearch(keys, to)
		at = end
		for ok := c.SeekBefore(s.To); ok && at > end-300; ok = c.Prev() {
			if at--; at < 0 || string(c.Key()) != keys[at] {
				t.Fatalf("before %q: %q at %d", to, c.Key(), at)
			}
		}
		if end == 0 && c.Valid() || c.Err() != nil {
			t.Fatalf("before the first term: %v", c.Err())
		}
	}
}

// merged distributes documents over files, drops some, and compares the merged
// index with one that is built of what is left.
func merged(t *testing.T, g *generator, c *Compiled, docs []string) {
	files := make([][]string, 1+g.IntN(4))
	remaps := make([]Remap, len(files))
	var left []string
	for _, doc := range docs {
		f := g.IntN(len(files))
		files[f] = append(files[f], doc)
		if remaps[f].New == nil && g.IntN(3) == 0 {
			remaps[f].First++ // lies before what the merge takes
			continue
		}
		if g.IntN(10) == 0 {
			remaps[f].New = append(remaps[f].New, Dropped)
			continue
		}
		remaps[f].New = append(remaps[f].New, uint32(len(left)))
		left = append(left, doc)
	}
	b := NewBuilder(c, 64<<10, newTempFiles().create)
	defer b.Close()
	for f := range files {
		if remaps[f].New == nil {
			continue
		}
		b.Take(mustOpen(t, build(t, c, files[f], 0, newTempFiles())), remaps[f])
	}
	compare(t, "merged", content(t, mustOpen(t, written(t, b, len(left)))), expected(t, c, left))
}

// TestMergedDense merges files whose documents alternate and have terms of many documents, so
// that the ordinals of a term come in no order and are bitmaps of one container and of two.
func TestMergedDense(t *testing.T) {
	c := mustCompile(t, All())
	var all []string
	files := make([][]string, 3)
	remaps := make([]Remap, len(files))
	for o := range 70_000 {
		doc := fmt.Sprintf(`{"half":%d,"some":%d,"few":%d}`, o%2, o%99, o%500)
		all = append(all, doc)
		f := o / 2 % len(files)
		files[f], remaps[f].New = append(files[f], doc), append(remaps[f].New, uint32(o))
	}
	b := NewBuilder(c, 0, nil)
	defer b.Close()
	for f := range files {
		b.Take(mustOpen(t, build(t, c, files[f], 0, nil)), remaps[f])
	}
	got, want := written(t, b, len(all)), build(t, c, all, 0, nil)
	if !bytes.Equal(got, want) {
		t.Errorf("the index of %d documents has %d bytes where they are merged, %d where they are added, or others", len(all), len(got), len(want))
	}
}

// TestVersions covers the terms that say something of versions.
func TestVersions(t *testing.T) {
	b := NewBuilder(mustCompile(t, All()), 0, nil)
	defer b.Close()
	b.Note(0, &item.Version{}, false)
	b.Note(1, &item.Version{Flags: item.Tombstone}, false)
	b.Note(2, &item.Version{Expires: 500}, true)
	b.Note(3, &item.Version{Expires: -3}, true)
	b.Note(4, &item.Version{Expires: 500}, false)
	b.Note(5, &item.Version{Expires: 501}, false)
	if err := b.Add(5, []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, written(t, b, 6))
	for _, test := range []struct {
		span Span
		want []uint32
	}{
		{Deleted(), []uint32{1}},
		{Older(), []uint32{2, 3}},
		{Expired(-4), nil},
		{Expired(499), []uint32{3}},
		{Expired(500), []uint32{2, 3, 4}},
		{Expired(1<<63 - 1), []uint32{2, 3, 4, 5}},
		{Documents(), []uint32{5}},
	} {
		var s Set
		s.Reset(0, 6)
		if err := r.Union(context.Background(), test.span, &s); err != nil || !slices.Equal(s.AppendTo(nil), test.want) {
			t.Errorf("%q: %v, %v", test.span.From, s.AppendTo(nil), err)
		}
	}
}

// TestHostile changes bytes of indexes: there are errors or wrong answers, which
// checksums prevent, but nothing else.
func TestHostile(t *testing.T) {
	seed := randtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	g := &generator{Rand: rng}
	docs := make([]string, 3000)
	for o := range docs {
		docs[o] = g.document()
	}
	good := build(t, mustCompile(t, All()), docs, 0, newTempFiles())
	n := 400
	if testing.Short() {
		n = 40
	}
	for range n {
		bad := slices.Clone(good)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(bad))
			if rng.IntN(3) == 0 {
				at = len(bad) - 1 - rng.IntN(min(len(bad), 4096))
			}
			bad[at] = byte(rng.Uint32())
		}
		if rng.IntN(10) == 0 {
			bad = bad[rng.IntN(len(bad)):]
		}
		readAll(t, bad)
	}
}

// readAll reads all that an index can be read for.
func readAll(t testing.TB, b []byte) {
	check := func(err error) {
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrTooNew) {
			t.Fatalf("error of another kind: %v", err)
		}
	}
	r, err := Open(Memory(b))
	check(err)
	if err != nil {
		return
	}
	_, err = r.Policy()
	check(err)
	var s Set
	s.Reset(0, min(r.Info().Items, 1<<16))
	for _, span := range []Span{Documents(), Deleted(), Exists(Path{}.Member("a")), Expired(1 << 62)} {
		check(r.Union(context.Background(), span, &s))
		_, _, err := r.Count(context.Background(), span)
		check(err)
		_, _, err = r.Lookup(span.From)
		check(err)
	}
	c := r.Cursor()
	terms := 0
	large, _, err := r.Lookup(OfType(Path{}.Member("a"), String).From)
	if check(err); large.Kind() != Large {
		large = Posting{r: r, kind: Large}
	}
	for ok := c.First(); ok && terms < 1<<16; ok = c.Next() {
		terms++
		c.Term()
		if c.Posting().Len() < 1<<20 {
			_, err := c.Posting().AppendTo(nil)
			check(err)
		}
		_, err := c.Posting().CountIn(&s)
		check(err)
		if c.Posting().Kind() == Large {
			_, err = c.Posting().CountBoth(&large)
			check(err)
			check(large.AddBoth(c.Posting(), &s))
			large = *c.Posting()
		}
		check(c.Posting().Retain(&s))
	}
	check(c.Err())
	for ok := c.SeekBefore(Documents().To); ok && terms > 0; ok = c.Prev() {
		terms--
	}
	check(c.Err())
	if items := r.Info().Items; items <= 1<<12 {
		check(Compare(context.Background(), r, r, 0, items, func([]byte, []uint32, []uint32) bool { return true }))
		check(mergeTwice(r))
	}
}

// mergeTwice joins an index with itself: of two versions that follow each other
// the first is of the one, the second of the other.
func mergeTwice(r *Reader) error {
	c, err := Compile(All())
	if err != nil {
		return err
	}
	b := NewBuilder(c, 0, nil)
	defer b.Close()
	var first, second Remap
	for i := range r.Info().Items {
		first.New, second.New = append(first.New, 2*i), append(second.New, 2*i+1)
	}
	b.Take(r, first)
	b.Take(r, second)
	var out Memory
	if err := b.WriteTo(func(p []byte) error { out = append(out, p...); return nil }, 2*r.Info().Items); err != nil {
		return err
	}
	merged, err := Open(out)
	if err == nil {
		_, _, err = merged.Count(context.Background(), Documents())
	}
	if err != nil {
		return fmt.Errorf("what was merged cannot be read: %v", err)
	}
	return nil
}
