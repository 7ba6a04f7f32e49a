package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/query/reference"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// TestQueriesWild is TestQueries with all that a container can have: documents
// that expire, unique keys, synthetic and hierarchical keys, transactions,
// batches and patches, snapshots, boundaries that move, postings of all kinds,
// values at the ends of their range, queries in the text form, and anything at
// all between two pages.
func TestQueriesWild(t *testing.T) {
	seed := newSeed(t)
	runs, steps := amount(6, 3, 2), amount(250, 120, 80)
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			m := newWildModel(t, rand.New(rand.NewPCG(seed, uint64(i))))
			defer func() { m.db.Close() }()
			left := steps
			if m.many {
				left /= 4
			}
			for range left {
				m.step()
			}
			m.verify()
		})
	}
}

// wildModel is a container beside a map of its documents.
type wildModel struct {
	t     *testing.T
	d     reference.Draw
	opts  *Options
	clock *testClock
	mem   *vfs.Mem
	db    *DB
	c     *Container
	def   ContainerDef
	docs  map[itemID]wildDoc
	ids   int  // in each logical partition
	many  bool // documents of few kinds, so that postings are long
	snaps []wildSnapshot
}

// wildDoc is a document; expires is in milliseconds, 0 for never.
type wildDoc struct {
	doc     reference.Document
	expires int64
}

type wildSnapshot struct {
	s    *Snapshot
	docs map[itemID]wildDoc
}

func newWildModel(t *testing.T, rng *rand.Rand) *wildModel {
	m := &wildModel{t: t, d: reference.Draw{Rand: rng, T: t, Edges: true}, mem: vfs.NewMem(), docs: make(map[itemID]wildDoc), ids: 40}
	m.opts = testOptions(m.mem)
	m.clock = newTestClock(m.opts)
	m.opts.FileBytes = 4<<10 + rng.Int64N(64<<10)
	m.def = ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1 + rng.IntN(3), Index: m.policy()}
	switch rng.IntN(6) {
	case 0:
		m.def.PartitionKey = []string{"/k", "/o/a", "/b"}
	case 1:
		m.def.PartitionKey = nil
		m.def.Synthetic = &SyntheticKey{Join: []string{"/k", "/b"}}
	case 2:
		m.def.PartitionKey = nil
		m.def.Synthetic = &SyntheticKey{Join: []string{"/k"}, Suffixes: 3, SuffixOf: "/n"}
	case 3:
		m.many, m.ids = true, 1500
		m.opts.FileBytes, m.opts.memtableBytes = 1<<20, 512<<10
	}
	if rng.IntN(3) == 0 {
		m.def.UniqueKeys = [][]string{{"/a"}, {"/n", "/o/b"}}[:1+rng.IntN(2)]
	}
	if rng.IntN(3) == 0 {
		m.def.DefaultTTL = time.Duration(1+rng.IntN(500)) * time.Second
	}
	m.open()
	var err error
	m.c, err = m.db.CreateContainer(context.Background(), "docs", m.def)
	must(m.t, err)
	return m
}

func (m *wildModel) open() {
	db, err := Open(context.Background(), "queries", m.opts)
	must(m.t, err)
	m.db = db
	m.c, _ = db.Container("docs")
}

// policy draws an index policy of patterns that have something to do with the
// documents.
func (m *wildModel) policy() IndexPolicy {
	if m.d.IntN(3) > 0 {
		return IndexAll()
	}
	patterns := []string{"/*", "/a/?", "/a/*", "/b/?", "/n/?", "/s/?", "/s/*", "/o/*", "/o/a/?", "/t/*", "/t/[]/?", "/t/[]/*", "/l/*", "/l/[]/a/?", "/l/[]/*", "/id/?", "/ttl/?", `/"a"/b/?`}
	m.d.Shuffle(len(patterns), func(i, j int) { patterns[i], patterns[j] = patterns[j], patterns[i] })
	n, excluded := m.d.IntN(8), m.d.IntN(5)
	if n == 0 {
		excluded = 0
	}
	return IndexPolicy{Include: patterns[:n], Exclude: patterns[n : n+excluded]}
}

func (m *wildModel) step() {
	ctx := context.Background()
	switch p := m.d.IntN(100); {
	case p < 45:
		n := 1 + m.d.IntN(8)
		if m.many {
			n = 1 + m.d.IntN(400)
		}
		for range n {
			m.write()
		}
	case p < 85:
		m.query()
	case p < 88:
		m.clock.pass(time.Duration(m.d.IntN(100)) * time.Second)
	case p < 92:
		s, err := m.c.Snapshot(ctx)
		must(m.t, err)
		m.snaps = append(m.snaps, wildSnapshot{s, maps.Clone(m.docs)})
		if len(m.snaps) > 3 {
			m.snaps[0].s.Close()
			m.snaps = slices.Delete(m.snaps, 0, 1)
		}
	default:
		m.disturb(m.write)
	}
}

// disturb does something that no query may notice.
func (m *wildModel) disturb(write func()) {
	ctx := context.Background()
	parts := m.db.partitions()
	p := parts[m.d.IntN(len(parts))]
	switch m.d.IntN(10) {
	case 0, 1, 7:
		must(m.t, m.db.Flush(ctx))
	case 2:
		_, err := p.CompactBy(ctx, p.somePicker(m.d, write))
		must(m.t, err)
	case 3:
		_, err := p.TrimOne(ctx, true)
		must(m.t, err)
	case 4, 5:
		m.reshape()
	case 6:
		must(m.t, m.db.Compact(ctx))
	case 8:
		// Now and then only some files are written anew, by merges that come later.
		policy := m.policy()
		def := m.c.def.inner()
		compiled, err := def.CompileIndex(index.Policy(policy))
		must(m.t, err)
		_, err = m.c.replacePolicy(policy, compiled)
		must(m.t, err)
		_, err = p.reindexOne(ctx, true)
		must(m.t, err)
		if m.d.IntN(4) > 0 {
			must(m.t, m.c.reindexAll(ctx))
		}
	default:
		for _, s := range m.snaps {
			s.s.Close()
		}
		m.snaps = nil
		must(m.t, m.db.Close())
		m.mem = m.mem.Kill()
		m.opts.fs = m.mem
		m.open()
	}
}

func (m *wildModel) reshape() {
	parts := m.c.Partitions()
	i := m.d.IntN(len(parts))
	ctx := context.Background()
	var job *ReshapeJob
	var err error
	switch n := m.d.IntN(3); {
	case n == 0 && len(parts) < 8 || len(parts) == 1:
		job, err = m.c.Split(ctx, parts[i].ID, nil)
	case n == 1:
		i = min(i, len(parts)-2)
		job, err = m.c.Merge(ctx, parts[i].ID, parts[i+1].ID)
	default:
		i = min(i, len(parts)-2)
		job, err = m.c.MoveBoundary(ctx, parts[i].ID, parts[i+1].ID, "")
	}
	must(m.t, err)
	if err := job.Wait(ctx); err != nil && !errors.Is(err, ErrRefused) {
		m.t.Fatal(err)
	}
}

// visible are the documents that have not expired.
func (m *wildModel) visible(docs map[itemID]wildDoc) []itemID {
	now := m.clock.wall.Load() / int64(time.Millisecond)
	var ids []itemID
	for id, d := range docs {
		if d.expires == 0 || d.expires > now {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b itemID) int { return strings.Compare(docs[a].doc.Place, docs[b].doc.Place) })
	return ids
}

// document draws a document.
func (m *wildModel) document() (id, body string) {
	id = fmt.Sprintf("i%d", m.d.IntN(m.ids))
	body = m.d.Members("a", "b", "n", "s", "t", "l", "o")
	if m.many {
		body = fmt.Sprintf(`{"a":%d,"b":%s,"n":%d,"t":[%d,%d]}`, m.d.IntN(3), []string{`"x"`, `"y"`, "null", "true"}[m.d.IntN(4)], m.d.IntN(40), m.d.IntN(3), m.d.IntN(30))
		if m.def.UniqueKeys != nil {
			body = fmt.Sprintf(`{"a":%q,"n":%d,"o":{"b":%q}}`, id, m.d.IntN(3), id)
		}
	}
	more := fmt.Sprintf(`{"id":%q`, id)
	if len(m.def.PartitionKey) == 3 {
		body = m.d.Members("a", "n", "s", "t", "l")
		more += fmt.Sprintf(`,"o":{"a":%s},"b":%s`, m.d.Scalar(), []string{"1", "true"}[m.d.IntN(2)])
	}
	if m.d.IntN(10) == 0 {
		more += fmt.Sprintf(`,"ttl":%d`, []int{-1, 5, 50, 1000}[m.d.IntN(4)])
	}
	if k := []string{`"a"`, `"b"`, `1`, `-0.0`, `null`, ``}[m.d.IntN(6)]; k != "" {
		more += `,"k":` + k
	}
	if body != "{}" {
		more += ","
	}
	return id, more + body[1:]
}

func (m *wildModel) write() {
	ctx := context.Background()
	changes := m.d.IntN(4) == 0
	if m.many {
		changes = m.d.IntN(200) == 0
	}
	var ids []itemID
	if changes {
		ids = m.visible(m.docs)
	}
	if len(ids) > 0 {
		which := ids[m.d.IntN(len(ids))]
		switch m.d.IntN(8) {
		case 0:
			must(m.t, m.c.DeleteLogicalPartition(ctx, which.key, nil))
			maps.DeleteFunc(m.docs, func(id itemID, _ wildDoc) bool { return id.key == which.key })
		case 1, 2:
			var p Patch
			p.Set("/patched", m.d.IntN(3))
			meta, err := m.c.Patch(ctx, which.key, which.id, &p, nil)
			must(m.t, err)
			it, err := m.c.Read(ctx, which.key, which.id)
			must(m.t, err)
			m.note(meta, string(it.Body))
		case 3, 4:
			m.transact(which.key)
		default:
			must(m.t, m.c.Delete(ctx, which.key, which.id, nil))
			delete(m.docs, which)
		}
		return
	}
	_, body := m.document()
	meta, err := m.c.Upsert(ctx, []byte(body), nil)
	if errors.Is(err, ErrUniqueKey) || errors.Is(err, ErrInvalid) {
		return // taken, or not one that can be a key
	}
	must(m.t, err)
	m.note(meta, body)
}

// transact writes to several items of a key, or to none.
func (m *wildModel) transact(pk PartitionKey) {
	gone := make(map[string]bool)
	rollback := m.d.IntN(4) == 0
	errRollback := errors.New("rollback")
	err := m.c.Update(context.Background(), pk, func(tx *Tx) error {
		clear(gone)
		for it, err := range tx.Scan(IDRange{}, nil) {
			if err != nil {
				return err
			}
			if m.d.IntN(3) == 0 {
				gone[it.ID] = true
			}
		}
		for id := range gone {
			if err := tx.Delete(id, nil); err != nil {
				return err
			}
		}
		if rollback {
			return errRollback
		}
		return nil
	})
	if rollback && errors.Is(err, errRollback) || errors.Is(err, ErrTooLarge) {
		return
	}
	must(m.t, err)
	for id := range gone {
		delete(m.docs, itemID{"docs", pk, id})
	}
}

// note takes a document that was written into the model.
func (m *wildModel) note(meta Meta, body string) {
	epk := meta.Key.EPK()
	d := wildDoc{doc: reference.Document{
		Place: string(epk.Bytes()) + string(meta.Key.Encoded()) + meta.ID, Root: reference.Parse(m.t, []byte(body)),
	}}
	if !meta.Expires.IsZero() {
		d.expires = meta.Expires.UnixMilli()
	}
	m.docs[itemID{"docs", meta.Key, meta.ID}] = d
}

// scope draws a scope, and says which keys lie in it.
func (m *wildModel) scope(docs []itemID) (Scope, func(PartitionKey) bool) {
	all := func(PartitionKey) bool { return true }
	if len(docs) == 0 {
		return AllPartitions(), all
	}
	key := docs[m.d.IntN(len(docs))].key
	n := m.d.IntN(5)
	switch {
	case n == 0:
		return OnePartition(key), func(k PartitionKey) bool { return k == key }
	case n == 1 && key.Len() > 1:
		enc := key.Encoded()
		prefix := keyOf(string(enc[:partmap.PrefixLen(enc, 1+m.d.IntN(key.Len()-1))]))
		return PrefixOf(prefix), func(k PartitionKey) bool { return strings.HasPrefix(string(k.Encoded()), string(prefix.Encoded())) }
	case n == 1 && m.def.Synthetic != nil && m.def.Synthetic.Suffixes > 0:
		base := []PartitionKey{StringKey("a"), NumberKey(0), NullKey(), UndefinedKey()}[m.d.IntN(4)]
		scope := OfBase(base)
		keys, err := m.def.Synthetic.rule().Keys(scope.of.Key)
		must(m.t, err)
		return scope, func(k PartitionKey) bool { return slices.Contains(keys, k) }
	}
	return AllPartitions(), all
}

// query compares a query, taken in pages, with the reference.
func (m *wildModel) query() {
	ctx := context.Background()
	s := m.d.Select()
	if m.d.IntN(5) == 0 {
		path := []string{"/k", "/b", "/n", "/o/a"}[m.d.IntN(4)]
		pin := &query.Filter{Op: query.Eq, Path: jsondoc.KeyPath(path), Value: m.d.Constant()}
		if path == "/k" {
			pin.Value, _ = query.ValueOf([]any{"a", "b", 1, 0, nil}[m.d.IntN(5)])
		}
		s.Where = &query.Filter{Op: query.And, Sub: []*query.Filter{s.Where, pin}}
	}
	docs, at := m.docs, m.c.Query
	var snapshot *Snapshot
	if len(m.snaps) > 0 && m.d.IntN(3) == 0 {
		i := m.d.IntN(len(m.snaps))
		docs, snapshot = m.snaps[i].docs, m.snaps[i].s
		at = snapshot.Query
	}
	ids := m.visible(docs)
	scope, holds := m.scope(ids)
	var list []reference.Document
	for _, id := range ids {
		if holds(id.key) {
			list = append(list, docs[id].doc)
		}
	}
	want := texts(reference.Rows(m.t, list, s))
	q := queryOf(s)
	if text, ok := textOf(s); ok && m.d.IntN(2) == 0 {
		var err error
		q, err = ParseQuery(text, nil)
		must(m.t, err)
	}
	offset := 0
	if m.d.IntN(4) == 0 {
		offset = m.d.IntN(10)
		want = want[min(offset, len(want)):]
	}
	q.Offset, q.NoScan = offset, m.d.IntN(8) == 0
	page := []int{0, 1, 2, 5, 30, 700}[m.d.IntN(6)]
	if page > 0 && len(want) > 100*page {
		page = len(want) / 10
	}
	var got []string
	for pages := 0; ; pages++ {
		q.Limit = page
		r := at(ctx, scope, q)
		n := 0
		for it, err := range r.All() {
			if q.NoScan && errors.Is(err, ErrNeedsScan) {
				return
			}
			must(m.t, err)
			got = append(got, texts([]any{reference.Parse(m.t, it.Body)})...)
			if n++; m.d.IntN(50) == 0 {
				break
			}
		}
		if q.Continue = r.Continue(); q.Continue == "" {
			break
		}
		if pages > 1000 {
			m.t.Fatal("the pages do not end")
		}
		if snapshot == nil && m.d.IntN(10) == 0 {
			m.disturb(func() {})
			at = m.c.Query
		}
	}
	if s.Grouped() {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		m.t.Fatalf("%s over %s\norder %v columns %v groups %v offset %d page %d, snapshot %v, policy %+v\n%d results, want %d; number %d is\n%.500q, want\n%.500q", s.Where, scope, s.OrderBy, s.Columns, s.GroupBy, offset, page, snapshot != nil, m.c.family.Indexing.Load(), len(got), len(want), i, got[i:min(len(got), i+2)], want[i:min(len(want), i+2)])
	}
	if !s.Grouped() && s.Columns == nil && m.c.family.Indexing.Load() != nil {
		plan, err := m.c.Explain(ctx, scope, q)
		must(m.t, err)
		if plan.String() == "" || len(plan.Partitions) == 0 {
			m.t.Fatalf("%+v", plan)
		}
	}
}

// verify lets the store look at itself.
func (m *wildModel) verify() {
	checkVerified(m.t, m.db)
}

// textOf writes a query in the text form; false: it has something that that has
// not.
func textOf(s *query.Select) (string, bool) {
	var b strings.Builder
	ok := true
	path := func(p query.Path) string {
		text := "c"
		for i, step := range p {
			switch {
			case step.Element:
				text += "[]"
			case i%2 == 0 && step.Name != "":
				text += "." + step.Name
			default:
				text += fmt.Sprintf("[%q]", step.Name)
			}
		}
		return text
	}
	b.WriteString("SELECT ")
	if s.Distinct {
		b.WriteString("DISTINCT ")
	}
	if s.Value {
		b.WriteString("VALUE ")
	}
	for i, c := range s.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		text := path(c.Path)
		if c.Path == nil {
			text = "1"
		}
		if c.Func != query.NoFunc {
			text = strings.ToLower(c.Func.String()) + "(" + text + ")"
		}
		if !s.Value {
			text += " AS " + c.Name
		}
		b.WriteString(text)
	}
	if len(s.Columns) == 0 {
		b.WriteString("*")
	}
	var where func(f *query.Filter) string
	where = func(f *query.Filter) string {
		var parts []string
		for _, sub := range f.Sub {
			parts = append(parts, "("+where(sub)+")")
		}
		p := path(f.Path)
		switch f.Op {
		case query.All:
			return "true"
		case query.And:
			return strings.Join(parts, " and ")
		case query.Or:
			return strings.Join(parts, "\nOR ")
		case query.Not:
			return "NOT " + parts[0]
		case query.Eq:
			return f.Value.String() + " = " + p
		case query.Ne:
			return p + "<>" + f.Value.String()
		case query.In:
			for _, v := range f.Values {
				parts = append(parts, v.String())
			}
			return p + " IN (" + strings.Join(parts, ",") + ")"
		case query.Prefix:
			return "StartsWith(" + p + ", " + f.Value.String() + ")"
		case query.Contains:
			return "CONTAINS (" + p + "," + f.Value.String() + ")"
		case query.ArrayContains:
			return "ARRAY_CONTAINS(" + p + ", " + f.Value.String() + ")"
		case query.Exists:
			return "IS_DEFINED(" + p + ")"
		case query.IsKind:
			for k := 1; k <= 6; k++ {
				if f.Kinds>>k&1 == 1 {
					parts = append(parts, []string{"IS_NULL", "IS_BOOL", "IS_NUMBER", "IS_STRING", "IS_ARRAY", "IS_OBJECT"}[k-1]+"("+p+")")
				}
			}
			return strings.Join(parts, " OR ")
		}
		lo, hi := f.Lo, f.Hi
		sign := func(strict string, inclusive bool) string {
			return strict + strings.Repeat("=", cmp.Compare(map[bool]int{true: 1}[inclusive], 0))
		}
		switch {
		case hi.Value.Kind == 0:
			return p + sign(">", lo.Inclusive) + lo.Value.String()
		case lo.Value.Kind == 0:
			return p + sign("<", hi.Inclusive) + hi.Value.String()
		case lo.Inclusive && hi.Inclusive:
			return p + " BETWEEN " + lo.Value.String() + " AND " + hi.Value.String()
		}
		ok = ok && !f.Path.Many()
		return p + sign(">", lo.Inclusive) + lo.Value.String() + " AND " + p + sign("<", hi.Inclusive) + hi.Value.String()
	}
	b.WriteString(" FROM root AS c WHERE " + where(s.Where))
	for i, p := range s.GroupBy {
		b.WriteString([]string{" GROUP BY ", ", "}[min(i, 1)] + path(p))
	}
	for i, o := range s.OrderBy {
		b.WriteString([]string{" ORDER BY ", ", "}[min(i, 1)] + path(o.Path))
		if o.Falling {
			b.WriteString(" DESC")
		}
	}
	return b.String(), ok
}
