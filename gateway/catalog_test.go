package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/document"
)

// ending is a context that ends when it has been asked a number of times.
type ending struct {
	context.Context
	left *int
}

func (e ending) Err() error {
	if *e.left--; *e.left < 0 {
		return context.Canceled
	}
	return nil
}

// inStore returns the names of the containers of databases in the store.
func (s *server) inStore() (names []string) {
	for c := range s.db.Containers() {
		if c.Name != catalogName {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestDropFails: what a drop leaves that fails behind its commit point is gone when its name
// is used again, and does not come back when the store is opened anew.
func TestDropFails(t *testing.T) {
	for _, drop := range []string{"container", "database"} {
		failed := 0
		for n := range 12 {
			s := start(t, nil)
			s.items()
			s.do(201, "POST", "/dbs/d/colls", `{"id":"other","partitionKey":{"paths":["/pk"]}}`)
			c := s.h.catalog
			k, bad := c.container("d", "c")
			if bad != nil {
				t.Fatal(bad)
			}
			left := n
			ctx := ending{t.Context(), &left}
			var err error
			if drop == "container" {
				err = c.deleteContainer(ctx, k, "")
			} else {
				err = c.deleteDatabase(ctx, k.db, "")
			}
			if err == nil {
				continue
			}
			if c.database("d") != nil && drop == "database" || c.database("d").hasContainer("c") && drop == "container" {
				continue // it failed before the commit point
			}
			failed++
			want := []string{"d.c"}
			if drop == "database" {
				s.do(201, "POST", "/dbs", `{"id":"d"}`)
			} else {
				want = append(want, "d.other")
			}
			s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
			if got := s.inStore(); !slices.Equal(got, want) {
				t.Errorf("%s, stopped at %d: the store has %v, want %v", drop, n, got, want)
			}
			again, err := openCatalog(t.Context(), local{s.db}, &Options{Clock: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			var shown []string
			for _, k := range again.containersOf(again.database("d")) {
				shown = append(shown, k.record.Store)
			}
			if !slices.Equal(shown, want) || !slices.Equal(s.inStore(), want) {
				t.Errorf("%s, stopped at %d: after a restart %v are shown and %v in the store, want %v", drop, n, shown, s.inStore(), want)
			}
		}
		if failed == 0 {
			t.Errorf("%s: no drop failed behind its commit point", drop)
		}
	}
}

func (d *database) hasContainer(name string) bool { return d != nil && d.containers[name] != nil }

// TestDefinitionAfterCrash: a change of the index policy or of the throughput that a crash cuts off before its record is written
// is taken back when the store is opened. One of the default time to live stays, and is shown.
func TestDefinitionAfterCrash(t *testing.T) {
	s := start(t, &Options{Throttle: true})
	s.items("x-ms-offer-throughput", "500")
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	before := k.items.Def()
	if err := k.items.SetIndexPolicy(t.Context(), engine.IndexPolicy{}); err != nil {
		t.Fatal(err)
	}
	if err := k.items.SetDefaultTTL(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := k.items.SetThroughput(t.Context(), 900); err != nil {
		t.Fatal(err)
	}
	next, err := New(t.Context(), s.db, &Options{Throttle: true})
	if err != nil {
		t.Fatal(err)
	}
	after := k.items.Def()
	if fmt.Sprint(before.Index) != fmt.Sprint(after.Index) || after.Throughput != 500 || after.DefaultTTL != time.Hour {
		t.Errorf("index %v, %v RU/s, default %v; want %v, 500 and an hour", after.Index, after.Throughput, after.DefaultTTL, before.Index)
	}
	again, bad := next.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	if got := fmt.Sprintf("%s", again.shown()["defaultTtl"]); got != "3600" || again.etag == k.etag {
		t.Errorf("defaultTtl %s is shown with etag %v, want 3600 and not %v", got, again.etag, k.etag)
	}
	last, err := New(t.Context(), s.db, &Options{Throttle: true})
	if err != nil {
		t.Fatal(err)
	}
	if k, bad = last.catalog.container("d", "c"); bad != nil || k.etag != again.etag {
		t.Errorf("another start makes the etag %v of %v: %v", k.etag, again.etag, bad)
	}
	if _, err := New(t.Context(), s.db, nil); err != nil {
		t.Fatal(err)
	}
	if got := k.items.Def().Throughput; got != 0 {
		t.Errorf("without Throttle %v RU/s are enforced", got)
	}
}

// TestShownTTL: a default time to live is shown in whole seconds, rounded up, and never as one that nobody may set.
func TestShownTTL(t *testing.T) {
	for stored, want := range map[time.Duration]int64{
		engine.NoExpiry: -1, time.Millisecond: 1, time.Second: 1, time.Second + time.Millisecond: 2, math.MaxInt32 * time.Second: math.MaxInt32, math.MaxInt64: math.MaxInt32,
	} {
		if got := shownTTL(stored); got == nil || *got != want {
			t.Errorf("%v is shown as %v, want %d", stored, got, want)
		}
	}
	if got := shownTTL(0); got != nil {
		t.Errorf("no default is shown as %d", *got)
	}
}

// TestRefusedDefinition: a definition that is refused has changed nothing.
func TestRefusedDefinition(t *testing.T) {
	s := start(t, nil)
	s.items()
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	before := k.items.Def()
	for _, path := range []string{"no slash", "/a/?/b", "/a//b", "/*/?", "/a/[", `/\"a`} {
		s.do(400, "PUT", "/dbs/d/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":1,"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"`+path+`"}]}}`)
		if after := k.items.Def(); after.DefaultTTL != before.DefaultTTL || fmt.Sprint(after.Index) != fmt.Sprint(before.Index) {
			t.Fatalf("%q: default %v and index %v, before %v and %v", path, after.DefaultTTL, after.Index, before.DefaultTTL, before.Index)
		}
	}
}

// TestUpsertRace: an upsert does not answer 404, whenever another client makes and deletes the item.
func TestUpsertRace(t *testing.T) {
	for n := range 12 {
		s := start(t, nil)
		docs := s.items()
		k, bad := s.h.catalog.container("d", "c")
		if bad != nil {
			t.Fatal(bad)
		}
		key := engine.StringKey("a")
		made, asked := false, n
		s.h.o.Clock = func() time.Time {
			if !made {
				// The upsert has found no item, and is about to make it.
				made = strings.Contains(callers(), ".create(")
				if made {
					if _, err := k.items.Create(t.Context(), []byte(`{"id":"1","pk":"a"}`), nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			return time.Now()
		}
		ctx := hooked{t.Context(), func() {
			if !made {
				return
			}
			if asked--; asked == 0 {
				_ = k.items.Delete(t.Context(), key, "1", nil)
			}
		}}
		r := s.sign(t.Context(), "POST", docs, []byte(`{"id":"1","pk":"a","x":1}`), pk, `["a"]`, "x-ms-documentdb-is-upsert", "true")
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, r.WithContext(ctx))
		if w.Code != 200 && w.Code != 201 {
			t.Errorf("deleted at question %d: %d %s", n, w.Code, w.Body)
		}
		if !made {
			t.Error("no item was made meanwhile")
		}
	}
}

// hooked is a context that calls a function when it is asked whether it has ended.
type hooked struct {
	context.Context
	ask func()
}

func (h hooked) Err() error {
	h.ask()
	return h.Context.Err()
}

func (h hooked) Done() <-chan struct{} {
	h.ask()
	return h.Context.Done()
}

// TestReadManyPages: items that are read by their ids come in pages of bounded size.
func TestReadManyPages(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	var list []string
	for i := range 7 {
		id := fmt.Sprint("i", i)
		list = append(list, `"`+id+`"`)
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":"a","x":%q}`, id, strings.Repeat("x", 1<<20)), pk, `["a"]`, "Prefer", "return=minimal")
	}
	query, _ := json.Marshal(map[string]any{"query": `SELECT * FROM c WHERE c.pk = "a" AND c.id IN (` + strings.Join(list, ",") + `)`, "parameters": []any{}})
	var got []string
	for next := ""; ; {
		head := []string{"x-ms-documentdb-query", "True", "Content-Type", "application/query+json", "x-ms-documentdb-partitionkeyrangeid", k0(s)}
		if next != "" {
			head = append(head, "x-ms-continuation", next)
		}
		r := s.do(200, "POST", docs, string(query), head...)
		if len(r.body) > pageBytes+document.MaxBytes {
			t.Errorf("an answer has %d bytes", len(r.body))
		}
		var page struct{ Documents []json.RawMessage }
		if err := json.Unmarshal(r.body, &page); err != nil {
			t.Fatal(err)
		}
		got = append(got, ids(t, page.Documents)...)
		if next = r.head.Get("x-ms-continuation"); next == "" {
			break
		}
	}
	slices.Sort(got)
	if want := strings.Fields("i0 i1 i2 i3 i4 i5 i6"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestReadManyPageSize: items that are read by their ids come in pages of the size that the client
// wants, if it says one.
func TestReadManyPageSize(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	var list []string
	for i := range defaultPage + 1 {
		list = append(list, fmt.Sprintf(`"%d"`, i))
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"a"}`, i), pk, `["a"]`)
	}
	text := `SELECT * FROM c WHERE c.pk = "a" AND c.id IN (` + strings.Join(list, ",") + `)`
	for size, want := range map[string]string{"40": "[40 40 21]", "100": "[100 1]", "101": "[101]", "-1": "[101]", "": "[101]"} {
		if got, pages := s.query(docs, text, "x-ms-documentdb-partitionkeyrangeid", k0(s), "x-ms-max-item-count", size); fmt.Sprint(pages) != want || len(got) != len(list) {
			t.Errorf("pages of %s: %v of %d results, want %s", size, pages, len(got), want)
		}
	}
}

// inEngine returns the container of the engine below one of the catalogue.
func inEngine(k *container) *engine.Container { return k.items.(localItems).Container }

// k0 returns the id of the first physical partition of d.c.
func k0(s *server) string {
	k, _ := s.h.catalog.container("d", "c")
	parts, _ := k.ranges(time.Now(), false)
	return parts[0].ID
}

// TestPatchKeepsResourceID: a patch cannot move the members that the gateway keeps.
func TestPatchKeepsResourceID(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	rid := s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, pk, `["a"]`).member(t, "_rid")
	for _, from := range []string{"/_rid", "/_ts", "/id", "/pk"} {
		s.do(400, "PATCH", docs+"/1", `{"operations":[{"op":"move","from":"`+from+`","path":"/x"}]}`, pk, `["a"]`)
	}
	if got := s.do(200, "GET", docs+"/1", "", pk, `["a"]`).member(t, "_rid"); got != rid {
		t.Errorf("_rid %v, want %v", got, rid)
	}
}

// TestIncrementByNoNumber: a patch increments by a number and nothing else.
func TestIncrementByNoNumber(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"1","pk":"a","n":1}`, pk, `["a"]`)
	for _, value := range []string{`,"value":null`, `,"value":"1"`, `,"value":true`, `,"value":[1]`, ``} {
		s.do(400, "PATCH", docs+"/1", `{"operations":[{"op":"incr","path":"/n"`+value+`}]}`, pk, `["a"]`)
	}
}

// TestMetadataLimits: queries over databases and containers do what TOP, OFFSET and LIMIT say.
func TestMetadataLimits(t *testing.T) {
	s := start(t, nil)
	for _, id := range []string{"a", "b", "c"} {
		s.do(201, "POST", "/dbs", `{"id":"`+id+`"}`)
	}
	for text, want := range map[string]string{"SELECT TOP 2 * FROM c": "[a b]", "SELECT * FROM c OFFSET 1 LIMIT 1": "[b]", "SELECT * FROM c OFFSET 5 LIMIT 1": "[]", "SELECT * FROM c WHERE c.id = 'c'": "[c]"} {
		r := s.do(200, "POST", "/dbs", `{"query":"`+text+`"}`, "x-ms-documentdb-query", "True", "Content-Type", "application/query+json")
		var page struct{ Databases []json.RawMessage }
		if err := json.Unmarshal(r.body, &page); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(ids(t, page.Databases)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// callers returns the names of the functions that are being called.
func callers() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		b.WriteString(f.Function + "(")
		if !more {
			return b.String()
		}
	}
}

// TestReadManyForms: the forms of queries that name all of their items have the results of
// others, and cost what reads cost.
func TestReadManyForms(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	values := []string{`"a"`, `7`, `null`, `true`, `false`, `""`, `-0.5`, `9007199254740993`}
	for i, v := range values {
		for j := range 3 {
			s.do(201, "POST", docs, fmt.Sprintf(`{"id":"i%d","pk":%s,"n":%d}`, j, v, i), pk, "["+v+"]")
		}
	}
	s.do(201, "POST", docs, `{"id":"i0","n":99}`, pk, "[{}]")
	head := []string{"x-ms-documentdb-partitionkeyrangeid", k0(s)}
	long := strings.Repeat("x", 1024) // no item has such an id
	for _, v := range values {
		for _, form := range []string{"c.id = 'i1' AND c.pk = %s", "c.id = '' AND c.pk = %s", "c.pk = %s AND c.id IN ('i0', '" + long + "', '')",
			"(c.id = '" + long + "' AND c.pk = %[1]s) OR (c.id = 'i2' AND c.pk = %[1]s)",
			"c.pk = %s AND c.id IN ('i0', 'i2', 'i0', 'none')", "(c.id = 'i0' AND c.pk = %[1]s) OR (c.pk = %[1]s AND c.id = 'i2') OR (c.id = 'i0' AND c.pk = 'a')",
			"c.pk = %s AND c.id = 'i0' AND c.id = 'i1'", "c.pk = %[1]s AND c.pk = 'a' AND c.id = 'i0'"} {
			where := fmt.Sprintf(form, v)
			named, _ := s.query(docs, "SELECT * FROM c WHERE "+where, head...)
			plain, _ := s.query(docs, "SELECT * FROM c WHERE ("+where+") AND c.n >= 0", head...)
			sort := func(list []json.RawMessage) string {
				var all []string
				for _, d := range list {
					all = append(all, string(d))
				}
				slices.Sort(all)
				return strings.Join(all, "\n")
			}
			if sort(named) != sort(plain) {
				t.Errorf("%s: %s, want %s", where, named, plain)
			}
		}
	}
	r := s.do(200, "POST", docs, `{"query":"SELECT * FROM c WHERE c.id = 'i1' AND c.pk = 'a'"}`, append(head, "Content-Type", "application/query+json")...)
	if got := r.head.Get("x-ms-request-charge"); got != "1.00" {
		t.Errorf("an item by its id costs %s RU", got)
	}
}

// fixed is a store whose default times to live cannot be changed.
type fixed struct{ local }

type fixedItems struct{ Items }

func (f fixed) CreateContainer(ctx context.Context, name string, def engine.ContainerDef) (Items, error) {
	it, err := f.local.CreateContainer(ctx, name, def)
	return fixedItems{it}, err
}

func (f fixedItems) SetDefaultTTL(_ context.Context, ttl time.Duration) error {
	if ttl != f.Def().DefaultTTL {
		return &Fault{Status: http.StatusNotImplemented, Message: "a change of defaultTtl"}
	}
	return nil
}

// TestFixedTTL: a definition whose default time to live the store refuses has not changed the index policy.
func TestFixedTTL(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.h.catalog.db = fixed{local{s.db}}
	definition := func(ttl int, path string) string {
		return fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":%d,"indexingPolicy":{"includedPaths":[{"path":%q}],"excludedPaths":[{"path":"/*"}]}}`, ttl, path)
	}
	s.do(201, "POST", "/dbs/d/colls", definition(10, "/n/?"))
	index := func() string {
		c, err := s.db.Container("d.c")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(c.Def().Index.Include)
	}
	for _, tc := range []struct {
		status, ttl int
		path, want  string
	}{{501, 11, "/m/?", "[/n/?]"}, {501, -1, "/n/?", "[/n/?]"}, {200, 10, "/m/?", "[/m/?]"}, {501, 11, "/n/?", "[/m/?]"}} {
		s.do(tc.status, "PUT", "/dbs/d/colls/c", definition(tc.ttl, tc.path))
		if got := index(); got != tc.want {
			t.Errorf("%d and %s: %s is indexed, want %s", tc.ttl, tc.path, got, tc.want)
		}
	}
}
