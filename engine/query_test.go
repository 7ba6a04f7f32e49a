package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keyscope"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/query/reference"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestQueries compares random queries, at present and at a snapshot, with a plain
// evaluation of what was written, with writes, deletes, items that expire, flushes,
// merges, splits, reopens and memory that is short between them.
func TestQueries(t *testing.T) {
	seed := newSeed(t)
	runs, steps := amount(5, 4, 2), amount(1000, 400, 300)
	oldStep, oldKeys := exec.Limits.FirstStep, exec.Limits.KeyUnits
	exec.Limits.FirstStep, exec.Limits.KeyUnits = 1<<(seed%8), int(seed/8%8)
	t.Cleanup(func() { exec.Limits.FirstStep, exec.Limits.KeyUnits = oldStep, oldKeys })
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			m := newQueryModel(t, rand.New(rand.NewPCG(seed, uint64(i))))
			defer func() { m.db.Close() }()
			for range steps {
				m.step()
			}
		})
	}
}

// queryModel is a container beside a map of its documents.
type queryModel struct {
	t    *testing.T
	d    reference.Draw
	mem  *vfs.Mem
	opts *Options
	db   *DB
	c    *Container
	docs map[itemID]queried
	now  int64 // milliseconds
	// at is a snapshot, if there is one, and then what the documents were.
	at   *Snapshot
	then map[itemID]queried
}

// queried is a document, and when it expires; 0: never.
type queried struct {
	body    string
	expires int64
}

func (q queried) expired(now int64) bool { return q.expires != 0 && q.expires <= now }

func newQueryModel(t *testing.T, rng *rand.Rand) *queryModel {
	m := &queryModel{t: t, d: reference.Draw{Rand: rng, T: t}, mem: vfs.NewMem(), docs: make(map[itemID]queried)}
	m.now = 1_700_000_000_000
	m.opts = testOptions(m.mem)
	m.opts.clock = func() time.Time { return time.UnixMilli(m.now) }
	m.opts.ExpiryGrace = []time.Duration{-1, time.Minute}[rng.IntN(2)]
	m.opts.elapsed = func() time.Duration { return time.Hour }
	m.opts.FileBytes = 4<<10 + rng.Int64N(32<<10)
	m.open()
	def := ContainerDef{
		PartitionKey: []string{"/k"}, MinPartitions: 1 + rng.IntN(4),
		DefaultTTL: []time.Duration{0, NoExpiry, time.Minute}[rng.IntN(3)],
	}
	switch rng.IntN(3) {
	case 0:
		def.PartitionKey = []string{"/k", "/o/a"}
	case 1:
		def.HashVersion = 1
	}
	def.Index = m.policy()
	_, err := m.db.CreateContainer(context.Background(), "docs", def)
	must(m.t, err)
	m.c, err = m.db.Container("docs")
	must(m.t, err)
	return m
}

// policy draws an index policy.
func (m *queryModel) policy() IndexPolicy {
	p := []IndexPolicy{
		{}, IndexAll(), IndexAll(), IndexAll(),
		{Include: []string{"/n/?", "/s/?", "/o/*", "/t/[]/?"}},
		{Include: []string{"/*"}, Exclude: []string{"/a/?", "/t/*", "/l/[]/b/?"}},
	}[m.d.IntN(6)]
	for range m.d.IntN(3) * m.d.IntN(3) {
		x := m.drawComposite()
		if !slices.ContainsFunc(p.Composite, func(o []CompositePath) bool { return slices.Equal(o, x) }) {
			p.Composite = append(p.Composite, x)
		}
	}
	return p
}

// reopen closes the store and opens it again.
func (m *queryModel) reopen() {
	m.release()
	must(m.t, m.db.Close())
	m.mem = m.mem.Kill()
	m.opts.fs = m.mem
	m.open()
}

func (m *queryModel) open() {
	db, err := Open(context.Background(), "queries", m.opts)
	must(m.t, err)
	m.db = db
	if m.c != nil {
		m.c, err = db.Container("docs")
		must(m.t, err)
	}
}

func (m *queryModel) step() {
	ctx := context.Background()
	switch p := m.d.IntN(100); {
	case p < 38:
		for range 1 + m.d.IntN(8) {
			m.write()
		}
	case p < 41:
		m.now += m.d.Int64N(40_000)
	case p < 42:
		// No memory for indexes of memtables, or enough again.
		m.db.env.MemIndexes.Beyond = []int64{-m.db.env.Pool.Limit(), 0}[m.d.IntN(2)]
	case p < 44:
		m.snapshot()
	case p < 90:
		m.query()
	case p < 94:
		must(m.t, m.db.Flush(ctx))
	case p < 96:
		parts := m.db.partitions()
		p := parts[m.d.IntN(len(parts))]
		_, err := p.CompactBy(ctx, p.somePicker(m.d, m.write))
		must(m.t, err)
	case p < 98:
		m.reshape()
	case p < 99:
		must(m.t, m.db.Compact(ctx))
		if m.d.IntN(4) == 0 {
			_, err := m.c.SetIndexPolicy(ctx, m.policy())
			must(m.t, err)
		}
	default:
		m.reopen()
	}
}

// snapshot takes a snapshot, or lets go of the one there is.
func (m *queryModel) snapshot() {
	if m.at != nil {
		m.release()
		return
	}
	var err error
	m.at, err = m.c.Snapshot(context.Background())
	must(m.t, err)
	m.then = maps.Clone(m.docs)
}

func (m *queryModel) release() {
	if m.at != nil {
		m.at.Close()
	}
	m.at, m.then = nil, nil
}

func (m *queryModel) key() string {
	return []string{`"a"`, `"b"`, `1`, `true`, `null`, ``}[m.d.IntN(6)]
}

func (m *queryModel) write() {
	ctx := context.Background()
	id := fmt.Sprintf("i%d", m.d.IntN(60))
	if m.d.IntN(5) == 0 && len(m.docs) > 0 {
		ids := make([]itemID, 0, len(m.docs))
		for id := range m.docs {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b itemID) int { return strings.Compare(a.key.String()+a.id, b.key.String()+b.id) })
		which := ids[m.d.IntN(len(ids))]
		if m.d.IntN(5) == 0 {
			must(m.t, m.c.DeleteLogicalPartition(ctx, which.key, nil))
			for id := range m.docs {
				if id.key == which.key {
					delete(m.docs, id)
				}
			}
			return
		}
		err := m.c.Delete(ctx, which.key, which.id, nil)
		if gone := m.docs[which].expired(m.now); gone != errors.Is(err, ErrNotFound) || err != nil && !gone {
			m.t.Fatalf("delete of %s %s, expired %v: %v", which.key, which.id, gone, err)
		}
		delete(m.docs, which)
		return
	}
	body := m.d.Members("a", "b", "n", "s", "t", "l")
	if body == "{}" {
		body = `{"a":1}`
	}
	o := m.d.Members("b")
	if len(m.c.def.PartitionKey) == 2 {
		o = `{"a":` + m.d.Scalar() + `}`
	}
	body = fmt.Sprintf(`{"id":%q,"o":%s,%s`, id, o, body[1:])
	if k := m.key(); k != "" {
		body = body[:len(body)-1] + `,"k":` + k + `}`
	}
	var ttl int64 // seconds
	opts := new(WriteOptions)
	if m.c.def.DefaultTTL != 0 {
		ttl = max(0, int64(m.c.def.DefaultTTL/time.Second))
		switch m.d.IntN(4) {
		case 0:
			ttl = 1 + m.d.Int64N(100)
			body = fmt.Sprintf(`%s,"ttl":%d}`, body[:len(body)-1], ttl)
		case 1:
			ttl = 1 + m.d.Int64N(100)
			opts.TTL = time.Duration(ttl) * time.Second
		}
	}
	meta, err := m.c.Upsert(ctx, []byte(body), opts)
	must(m.t, err)
	doc := queried{body: body}
	if ttl != 0 {
		doc.expires = millisOf(meta.Modified) + 1000*ttl
	}
	m.docs[itemID{"docs", meta.Key, id}] = doc
}

func (m *queryModel) reshape() {
	parts := m.c.Partitions()
	i := m.d.IntN(len(parts))
	ctx := context.Background()
	var job *ReshapeJob
	var err error
	if m.d.IntN(2) == 0 && len(parts) < 8 || len(parts) == 1 {
		job, err = m.c.Split(ctx, parts[i].ID, nil)
	} else {
		i = min(i, len(parts)-2)
		job, err = m.c.Merge(ctx, parts[i].ID, parts[i+1].ID)
	}
	must(m.t, err)
	if err := job.Wait(ctx); err != nil && !errors.Is(err, ErrRefused) {
		m.t.Fatal(err)
	}
}

// scope draws a scope and returns those of the documents that are in it and have
// not expired.
func (m *queryModel) scope(all map[itemID]queried) (Scope, []reference.Document) {
	scope := AllPartitions()
	key, err := ParseKey("[" + strings.TrimSuffix(m.key()+"undefined", "undefined") + "]")
	if err != nil {
		key = UndefinedKey()
	}
	switch m.d.IntN(4) {
	case 0:
		scope = PrefixOf(key)
	case 1:
		if len(m.c.def.PartitionKey) == 2 {
			second, err := ParseKey(m.d.Scalar())
			must(m.t, err)
			key = JoinKeys(key, second)
		}
		scope = OnePartition(key)
	}
	var docs []reference.Document
	for id, doc := range all {
		if doc.expired(m.now) {
			continue
		}
		if scope.of.Kind != keyscope.All && !strings.HasPrefix(string(id.key.OfVersion(2).Encoded()), string(key.Encoded())) {
			continue
		}
		own := m.c.keys.Own(id.key)
		epk := own.EPK()
		place := string(epk.Bytes()) + string(own.Encoded()) + id.id
		docs = append(docs, reference.Document{Place: place, Root: reference.Parse(m.t, []byte(doc.body))})
	}
	return scope, docs
}

// pin draws a demand of the partition key.
func (m *queryModel) pin() *query.Filter {
	level := func(path string) *query.Filter {
		f := &query.Filter{Op: []query.Op{query.Eq, query.In}[m.d.IntN(2)], Path: jsondoc.KeyPath(path), Value: m.d.Constant()}
		for range 1 + m.d.IntN(4) {
			f.Values = append(f.Values, m.d.Constant())
		}
		return f
	}
	either := &query.Filter{Op: query.Or}
	for range []int{1, 1, 2, 3}[m.d.IntN(4)] {
		f := level("/k")
		if m.d.IntN(2) == 0 {
			f = &query.Filter{Op: query.And, Sub: []*query.Filter{f, level("/o/a")}}
		}
		either.Sub = append(either.Sub, f)
	}
	return either
}

// query compares a query, taken in pages, with the reference.
func (m *queryModel) query() {
	s := m.d.Select()
	if composite := m.c.Def().Index.Composite; len(composite) > 0 && m.d.IntN(2) == 0 {
		m.compositeSelect(s, composite[m.d.IntN(len(composite))])
	}
	if m.d.IntN(3) == 0 {
		s.Where = &query.Filter{Op: query.And, Sub: []*query.Filter{s.Where, m.pin()}}
	}
	past := m.at != nil && m.d.IntN(2) == 0
	all := m.docs
	if past {
		all = m.then
	}
	scope, docs := m.scope(all)
	want := reference.Rows(m.t, docs, s)
	offset := m.d.IntN(3) * m.d.IntN(2)
	want = want[min(offset, len(want)):]
	q := queryOf(s)
	q.Offset = offset
	page := 1 + m.d.IntN(20)
	var got []any
	for pages := 0; ; pages++ {
		q.Limit = []int{0, page}[min(1, page%4)]
		var r *QueryResult
		if past {
			r = m.at.Query(context.Background(), scope, q)
		} else {
			r = m.c.Query(context.Background(), scope, q)
		}
		n := 0
		for it, err := range r.All() {
			must(m.t, err)
			got = append(got, reference.Parse(m.t, it.Body))
			if n++; m.d.IntN(30) == 0 {
				break
			}
		}
		if q.Continue = r.Continue(); q.Continue == "" {
			break
		}
		if pages > 1000 {
			m.t.Fatal("the pages do not end")
		}
		switch m.d.IntN(40) {
		case 0, 1:
			m.reshape()
		case 2:
			if !past {
				m.reopen()
			}
		}
	}
	if len(got) != len(want) || len(got) > 0 && !sameRows(got, want) {
		m.t.Fatalf("%s over %s\norder %v columns %v groups %v offset %d\ngot  %d %v\nwant %d %v\nparts %v", s.Where, scope, s.OrderBy, s.Columns, s.GroupBy, offset, len(got), texts(got), len(want), texts(want), m.c.Partitions())
	}
	if !s.Grouped() && m.d.IntN(3) == 0 {
		count := m.c.Count
		if past {
			count = m.at.Count
		}
		n, err := count(context.Background(), scope, Filter{f: s.Where})
		must(m.t, err)
		if s.Columns == nil && n != int64(len(want)+min(offset, len(reference.Rows(m.t, docs, s)))) {
			m.t.Fatalf("%s over %s: count %d, want %d", s.Where, scope, n, len(want))
		}
	}
}

// queryOf returns a query of the reference as callers would write it.
func queryOf(s *query.Select) Query {
	q := Query{Where: Filter{f: s.Where}, Value: s.Value, Distinct: s.Distinct}
	for _, c := range s.Columns {
		f := QueryField{As: c.Name, Aggregate: Aggregate(c.Func)}
		if c.Path != nil {
			f.Path = c.Path.String()
		}
		q.Fields = append(q.Fields, f)
	}
	for _, p := range s.GroupBy {
		q.GroupBy = append(q.GroupBy, p.String())
	}
	for _, o := range s.OrderBy {
		q.OrderBy = append(q.OrderBy, QueryOrder{o.Path.String(), o.Falling})
	}
	return q
}

// sameRows compares rows in order.
func sameRows(got, want []any) bool { return reflect.DeepEqual(texts(got), texts(want)) }

func texts(rows []any) []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		b, _ := json.Marshal(r)
		list[i] = string(b)
	}
	return list
}

// idsInPages returns the ids of the results of a query with a limit, page by page until the end.
func idsInPages(t *testing.T, c *Container, q Query) (ids []string) {
	t.Helper()
	for more := true; more; more = q.Continue != "" {
		r := c.Query(t.Context(), AllPartitions(), q)
		for it, err := range r.All() {
			must(t, err)
			ids = append(ids, it.ID)
		}
		q.Continue = r.Continue()
	}
	return ids
}
