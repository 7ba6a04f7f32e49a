package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/vfs"
)

// drawComposite draws a composite index of 2 to 4 paths.
func (m *queryModel) drawComposite() []CompositePath {
	paths := []string{"/n", "/s", "/a", "/b", "/o/a", "/o/b", "/k"}
	m.d.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	var x []CompositePath
	for _, path := range paths[:2+m.d.IntN(3)] {
		x = append(x, CompositePath{Path: path, Descending: m.d.IntN(2) == 0})
	}
	return x
}

// compositeSelect makes a query one that a composite index serves: with conditions on its
// first paths, and often in its order or the reverse.
func (m *queryModel) compositeSelect(s *query.Select, x []CompositePath) {
	conditions := []*query.Filter{}
	path := func(i int) query.Path {
		p, err := query.ParsePath(x[i].Path)
		must(m.t, err)
		return p
	}
	value := func(i int) query.Value {
		for _, doc := range m.docs { // mostly one that a document has
			if v := m.valueAt(doc.body, x[i].Path); v.Kind != 0 && m.d.IntN(4) > 0 {
				return v
			}
			break
		}
		return m.d.Constant()
	}
	equal := m.d.IntN(len(x) + 1)
	for i := range equal {
		conditions = append(conditions, &query.Filter{Op: query.Eq, Path: path(i), Value: value(i)})
	}
	for range m.d.IntN(3) {
		if equal == len(x) {
			break
		}
		f := &query.Filter{Op: query.Range, Path: path(equal)}
		f.Lo = query.Limit{Value: value(equal), Inclusive: m.d.IntN(2) == 0}
		switch m.d.IntN(3) {
		case 0:
			f.Lo, f.Hi = query.Limit{}, f.Lo
		case 1:
			if hi := value(equal); hi.Kind == f.Lo.Value.Kind {
				f.Hi = query.Limit{Value: hi, Inclusive: m.d.IntN(2) == 0}
			}
		}
		if v := value(equal); v.Text != "" && m.d.IntN(3) == 0 {
			f = &query.Filter{Op: query.Prefix, Path: path(equal), Value: query.Value{Kind: v.Kind, Text: v.Text[:m.d.IntN(len(v.Text)+1)]}}
		}
		conditions = append(conditions, f)
	}
	if m.d.IntN(3) == 0 {
		conditions = append(conditions, m.d.Filter(1))
	}
	m.d.Shuffle(len(conditions), func(i, j int) { conditions[i], conditions[j] = conditions[j], conditions[i] })
	drawn := &query.Filter{}
	switch len(conditions) {
	case 0:
	case 1:
		drawn = conditions[0]
	case 3:
		drawn = &query.Filter{Op: query.And, Sub: []*query.Filter{{Op: query.And, Sub: conditions[:2]}, conditions[2]}}
	default:
		drawn = &query.Filter{Op: query.And, Sub: conditions}
	}
	if s.Grouped() {
		s.Where = &query.Filter{Op: query.And, Sub: []*query.Filter{s.Where, drawn}}
		return
	}
	if s.Where = drawn; m.d.IntN(4) == 0 {
		return
	}
	s.OrderBy = nil
	turned := m.d.IntN(2) == 0
	for i := min(m.d.IntN(equal+1), len(x)-1); i < len(x); i++ {
		s.OrderBy = append(s.OrderBy, query.Order{Path: path(i), Falling: x[i].Descending != turned})
	}
}

// valueAt returns the scalar at a path of a document, undefined if there is none.
func (m *queryModel) valueAt(body, path string) query.Value {
	var doc any
	must(m.t, json.Unmarshal([]byte(body), &doc))
	for name := range strings.SplitSeq(path[1:], "/") {
		object, _ := doc.(map[string]any)
		if doc = object[name]; doc == nil {
			return query.Value{}
		}
	}
	v, err := query.ValueOf(doc)
	if err != nil {
		return query.Value{}
	}
	return v
}

// TestCompositeLongStrings: where the beginnings of long strings do not tell the order, the
// documents do, in both directions, in several files, on each page.
func TestCompositeLongStrings(t *testing.T) {
	ctx := t.Context()
	index := IndexPolicy{Composite: [][]CompositePath{{{Path: "/s"}, {Path: "/n", Descending: true}}}}
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, Index: index})
	type row struct {
		s  string
		n  int
		id string
	}
	var rows []row
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	for i := range amount(400, 400, 200) / lone(1) {
		r := row{strings.Repeat("x", 60+i%3*5) + fmt.Sprint(rng.IntN(20)), rng.IntN(3), fmt.Sprintf("%03d", i)}
		rows = append(rows, r)
		must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":1,"s":%q,"n":%d}`, r.id, r.s, r.n), nil)))
		if i%70 == 69 {
			must(t, db.Flush(ctx))
		}
	}
	for _, turned := range []bool{false, true} {
		slices.SortFunc(rows, func(a, b row) int {
			order := cmp.Or(cmp.Compare(a.s, b.s), cmp.Compare(b.n, a.n))
			if turned {
				order = -order
			}
			return cmp.Or(order, cmp.Compare(a.id, b.id))
		})
		for _, page := range []int{1, 7, 100} {
			q := Query{OrderBy: []QueryOrder{{"/s", turned}, {"/n", !turned}}, Limit: page}
			got := idsInPages(t, c, q)
			for i, r := range rows {
				if i >= len(got) || got[i] != r.id {
					t.Fatalf("turned %t, pages of %d: result %d of %d is not %s", turned, page, i, len(got), r.id)
				}
			}
		}
	}
}

// TestCompositeOrderBeside: in an order by a composite index a condition counts that only another
// one answers, by itself or together with a condition of the first.
func TestCompositeOrderBeside(t *testing.T) {
	ctx := t.Context()
	for _, beside := range [][]CompositePath{{{Path: "/a"}, {Path: "/d"}}, {{Path: "/c"}, {Path: "/d"}}} {
		t.Run(beside[0].Path, func(t *testing.T) {
			policy := IndexPolicy{Composite: [][]CompositePath{{{Path: "/a"}, {Path: "/o"}}, beside}}
			db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, Index: policy})
			const n = 400
			for i := range n {
				o := i * 7919 % n
				must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%03d","k":%d,"a":%d,"c":%d,"d":%d,"o":%d}`, o, i%9, o%2, o%3, o%5, o), nil)))
			}
			must(t, db.Flush(ctx))
			var want []string
			for o := range n {
				if o%2 == 1 && o%3 == 2 && o%5 == 3 {
					want = append(want, fmt.Sprintf("%03d", o))
				}
			}
			for _, page := range []int{1, 5, n} {
				q := Query{Where: And(Eq("/a", 1), Eq("/c", 2), Eq("/d", 3)), OrderBy: []QueryOrder{{Path: "/o"}}, Limit: page}
				if got := idsInPages(t, c, q); !slices.Equal(got, want) {
					t.Errorf("pages of %d: %v, want %v", page, got, want)
				}
			}
		})
	}
}
