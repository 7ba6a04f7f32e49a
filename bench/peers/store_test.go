package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

func newDocuments(t *testing.T, n int64, partitions int) *measure.Generated {
	t.Helper()
	g, err := workload.NewGenerator(workload.Params{Shape: defaultShape.Name, Seed: 7, LogicalPartitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	return measure.NewGenerated(g, n)
}

// model is what a store must contain.
type model map[partmap.Key][]document

func (m model) put(doc document) {
	docs := m[doc.key]
	at, found := slices.BinarySearchFunc(docs, doc, func(a, b document) int { return cmp.Compare(a.id, b.id) })
	doc.body = bytes.Clone(doc.body)
	if found {
		docs[at] = doc
	} else {
		m[doc.key] = slices.Insert(docs, at, doc)
	}
}

// check compares a store with what it must contain.
func (m model) check(t *testing.T, s store) {
	t.Helper()
	ctx := t.Context()
	var buf []byte // has room sometimes
	for key, docs := range m {
		for _, doc := range docs {
			body, err := s.Read(ctx, key, doc.id, buf[:0])
			if err != nil || !bytes.Equal(body, doc.body) {
				t.Fatalf("%v %q: %v, %d bytes", key, doc.id, err, len(body))
			}
			buf = body
			for _, absent := range []string{doc.id + "~", doc.id[:len(doc.id)-1]} {
				if _, err := s.Read(ctx, key, absent, nil); !errors.Is(err, measure.ErrNotFound) {
					t.Fatalf("%v %q: %v", key, absent, err)
				}
			}
		}
		for _, c := range []struct{ at, limit int }{{0, 0}, {0, 1}, {len(docs) / 2, 0}, {len(docs) / 3, 3}, {len(docs) - 1, 100}, {0, len(docs)}} {
			want := docs[c.at:]
			if c.limit > 0 {
				want = want[:min(c.limit, len(want))]
			}
			from := docs[c.at].id
			if c.at == 0 {
				from = ""
			}
			var got [][]byte
			if err := s.Scan(ctx, key, from, c.limit, func(doc []byte) { got = append(got, bytes.Clone(doc)) }); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, func(a []byte, b document) bool { return bytes.Equal(a, b.body) }) {
				t.Fatalf("%v from %q, limit %d: %d documents, want %d", key, from, c.limit, len(got), len(want))
			}
		}
		if err := s.Scan(ctx, key, "~", 0, func([]byte) { t.Fatal("a document behind the last") }); err != nil {
			t.Fatal(err)
		}
	}
}

// Every store holds what was written to it, in both modes, before and after it
// is opened again.
func TestStores(t *testing.T) {
	for _, c := range candidates() {
		if c.probe {
			continue
		}
		for _, synced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/synced=%v", c.name, synced), func(t *testing.T) {
				t.Parallel()
				testStore(t, c, mode{Synced: synced, Workers: 4, KeyPath: "/foodGroup"})
			})
		}
	}
}

func testStore(t *testing.T, c candidate, m mode) {
	ctx, dir := t.Context(), t.TempDir()
	const n = 1500 // more than a batch
	docs := newDocuments(t, n, 3)
	j := job{task: task{Documents: n}, ctx: ctx, docs: docs}
	want := make(model)
	for doc := range j.all() {
		want.put(doc)
	}
	s, err := c.open(ctx, dir, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Load(ctx, j.all()); err != nil {
		t.Fatal(err)
	}
	want.check(t, s)

	// Overwrites and inserts by several goroutines.
	var wg sync.WaitGroup
	var mu sync.Mutex
	for worker := range int64(m.Workers) {
		wg.Go(func() {
			for i := worker; i < n+20; i += 40 {
				id := string(docs.AppendID(nil, i))
				body, err := docs.AppendVersion(ctx, nil, i, 1)
				if err == nil {
					err = s.Upsert(ctx, docs.Key(i), id, body)
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				want.put(document{key: docs.Key(i), id: id, body: body})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	want.check(t, s)
	if _, err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	want.check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = c.open(ctx, dir, m); err != nil {
		t.Fatal(err)
	}
	want.check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAfterPrefix(t *testing.T) {
	for _, c := range []struct{ prefix, after string }{{"a", "b"}, {"a\xff", "b"}, {"\x08a\xff\xff", "\x08b"}, {"\x08\xff", "\x09"}} {
		if got := string(afterPrefix(nil, []byte(c.prefix))); got != c.after {
			t.Errorf("after %q: %q", c.prefix, got)
		}
	}
}

func TestBatches(t *testing.T) {
	for _, n := range []int{0, 1, 10, 1000} {
		body := bytes.Repeat([]byte("x"), 10_000)
		key := partmap.String("k")
		at, total := 0, 0
		for batch := range batches(func(yield func(document) bool) {
			for i := range n {
				if !yield(document{key: key, id: fmt.Sprint(i), body: append(body, fmt.Sprint(i)...)}) {
					return
				}
			}
		}) {
			size := 0
			for _, p := range batch {
				if want := fmt.Sprint(at); !bytes.Equal(p.key, appendKey(nil, key, want)) || !bytes.Equal(p.value, append(body, want...)) {
					t.Fatalf("document %d is %q", at, p.key)
				}
				at++
				size += len(p.value)
			}
			if size > batchBytes+2*len(body) || size == 0 {
				t.Errorf("a batch of %d bytes", size)
			}
			total++
		}
		if at != n || total > 1+n*len(body)/batchBytes {
			t.Errorf("%d documents of %d in %d batches", at, n, total)
		}
	}
}
