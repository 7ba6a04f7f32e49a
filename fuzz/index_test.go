package fuzz

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
)

// buildIndex returns the bytes of the index of documents.
func buildIndex(tb testing.TB, docs ...string) []byte {
	policy, err := index.Compile(index.All())
	if err != nil {
		tb.Fatal(err)
	}
	b := index.NewBuilder(policy, 0, nil)
	defer b.Close()
	for i, doc := range docs {
		if err := b.Add(uint32(i), []byte(doc)); err != nil {
			tb.Fatal(err)
		}
	}
	var out []byte
	if err := b.WriteTo(func(p []byte) error { out = append(out, p...); return nil }, uint32(len(docs))); err != nil {
		tb.Fatal(err)
	}
	return out
}

// FuzzIndex reads bytes as an index in all ways: nothing but errors of damage.
func FuzzIndex(f *testing.F) {
	many := slices.Repeat([]string{`{"a":1,"b":["x",{"c":null}]}`, `{"a":2.5,"b":{}}`}, 400)
	f.Add(buildIndex(f, many...))
	f.Add(buildIndex(f, `{"a":"é","b":[[]]}`))
	f.Add([]byte("CLVINDEX"))
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(err error) {
			if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrTooNew) {
				t.Fatal(err)
			}
		}
		r, err := index.Open(index.Memory(b))
		if check(err); err != nil {
			return
		}
		_, err = r.Policy()
		check(err)
		var set index.Set
		set.Reset(0, min(r.Info().Items, 1<<16))
		check(r.Union(context.Background(), index.Documents(), &set))
		_, _, err = r.Lookup(index.Deleted().From)
		check(err)
		c := r.Cursor()
		terms := 0
		for ok := c.First(); ok && terms < 1<<12; ok = c.Next() {
			terms++
			c.Term()
			_, err := c.Posting().CountIn(&set)
			check(err)
			if c.Posting().Len() < 1<<16 {
				_, err = c.Posting().AppendTo(nil)
				check(err)
			}
		}
		check(c.Err())
		for ok := c.SeekBefore(index.Documents().To); ok && terms > 0; ok = c.Prev() {
			terms--
		}
		check(c.Err())
		readTogether(t, r, &set, check)
	})
}

// readTogether reads the long postings of an index two by two, compares it with
// itself and merges it with itself.
func readTogether(t *testing.T, r *index.Reader, set *index.Set, check func(error)) {
	var before *index.Posting
	c := r.Cursor()
	for ok, terms := c.First(), 0; ok && terms < 1<<8; ok, terms = c.Next(), terms+1 {
		p := *c.Posting()
		check(p.Retain(set))
		if p.Kind() != index.Large {
			continue
		}
		if before != nil {
			_, err := p.CountBoth(before)
			check(err)
			check(p.AddBoth(before, set))
		}
		before = &p
	}
	items := r.Info().Items
	if items > 1<<12 {
		return
	}
	check(index.Compare(context.Background(), r, r, 0, items, func(term []byte, more, less []uint32) bool { return false }))
	policy, err := index.Compile(index.All())
	if err != nil {
		t.Fatal(err)
	}
	b := index.NewBuilder(policy, 0, nil)
	defer b.Close()
	first, second := index.Remap{}, index.Remap{}
	for i := range items {
		first.New, second.New = append(first.New, 2*i), append(second.New, 2*i+1)
	}
	b.Take(r, first)
	b.Take(r, second)
	var out []byte
	err = b.WriteTo(func(p []byte) error { out = append(out, p...); return nil }, 2*items)
	if check(err); err == nil && items > 0 {
		merged, err := index.Open(index.Memory(out))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := merged.Count(context.Background(), index.Documents()); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzIndexDocument indexes bytes as a document: the index can be read.
func FuzzIndexDocument(f *testing.F) {
	f.Add(`{"a":{"b":[1,{"c":"\u00e9"}]},"b":null}`)
	f.Add(`{"a":[[[["\`)
	f.Fuzz(func(t *testing.T, doc string) {
		r, err := index.Open(index.Memory(buildIndex(t, doc)))
		if err != nil {
			t.Fatal(err)
		}
		c := r.Cursor()
		for ok := c.First(); ok; ok = c.Next() {
			if _, ok := c.Term(); !ok || c.Posting().Len() != 1 {
				t.Fatalf("term %q", c.Key())
			}
		}
		if c.Err() != nil {
			t.Fatal(c.Err())
		}
	})
}

// FuzzIndexPath parses paths and patterns: what is accepted is written again.
func FuzzIndexPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/b", "/a/[]/?", `/"a/b\"c"/*`, `/""`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := index.ParsePath(text); err == nil {
			again, err := index.ParsePath(p.String())
			if err != nil || again != p {
				t.Fatalf("%q: %q: %v", text, p, err)
			}
		}
		_, _ = index.Compile(index.Policy{Include: []string{text}})
	})
}
