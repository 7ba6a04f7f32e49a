package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/pageapi"
)

// openTest opens a store with a container "c" of documents.
func openTest(t *testing.T, o *engine.Options, documents int) (*engine.DB, *engine.Container) {
	t.Helper()
	db, err := engine.Open(t.Context(), filepath.Join(t.TempDir(), "store"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c, err := db.CreateContainer(t.Context(), "c", engine.ContainerDef{PartitionKey: []string{"/k"}, Index: engine.IndexPolicy{Include: []string{"/n/?"}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range documents {
		put(t, c, fmt.Sprintf(`{"id":"%04d","k":"k%d","n":%d,"m":%d}`, i, i%40, i, i%7))
	}
	return db, c
}

func put(t *testing.T, c *engine.Container, doc string) {
	t.Helper()
	if _, err := c.Upsert(context.Background(), []byte(doc), nil); err != nil {
		t.Fatal(err)
	}
}

// request sends a request to a handler, and reads the JSON of the answer if into is not nil.
func request(t *testing.T, h http.Handler, method, target, body string, into any, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s %s: %d, %v: %s", method, target, w.Code, err, w.Body)
		}
	}
	return w.Result()
}

// get reads an answer that must be no error.
func get[T any](t *testing.T, h http.Handler, target string) (v T) {
	t.Helper()
	if r := request(t, h, http.MethodGet, target, "", &v); r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", target, r.Status)
	}
	return v
}

// TestContents compares the answers with the store, while it is written to and split.
func TestContents(t *testing.T) {
	events := new(Events)
	db, c := openTest(t, &engine.Options{Events: events.Listener(nil)}, 400)
	h := Handler(db, &Options{Events: events, AllowSplit: true})
	if v := get[storeView](t, h, "/api/store"); v.State != "open" || v.Title != "store" || v.Count != 1 || v.Parts != 1 || v.Total.Documents != 400 {
		t.Errorf("store: %+v", v)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"%04d","k":"k%d","n":1}`, i%400, i%40), nil); err != nil {
				t.Error(err)
			}
		}
	})
	p := c.Partitions()[0]
	var preview cutView
	request(t, h, http.MethodGet, fmt.Sprintf("/api/cut?name=c&partition=%d", p.ID), "", &preview)
	if preview.LeftBytes == 0 || preview.RightBytes == 0 || preview.Place <= 0 || preview.Place >= 1 {
		t.Errorf("cut: %+v", preview)
	}
	body := fmt.Sprintf(`{"name":"c","partition":%d,"at":%q}`, p.ID, preview.At)
	if r := request(t, h, http.MethodPost, "/api/split", body, nil); r.StatusCode != http.StatusOK {
		t.Fatalf("split: %s", r.Status)
	}
	for len(c.Partitions()) < 2 || len(db.Jobs()) > 0 {
		if _, err := c.Read(t.Context(), engine.StringKey("k1"), "0001"); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	writer.Wait()
	fresh := Handler(db, &Options{Events: events})
	v := get[containerView](t, fresh, "/api/container?name=c")
	if len(v.Blocks) != 2 || v.Blocks[0].From != 0 || v.Blocks[0].To != preview.Place || v.Blocks[1].To != 1 || v.Blocks[0].Min != "" || len(v.History) != 1 || len(v.Rows) != 1 || len(v.Rows[0].From) != 2 {
		t.Errorf("container: %+v", v)
	}
	parts := get[listView[partitionRow]](t, fresh, "/api/partitions?name=c&limit=1&offset=1")
	if parts.Total != 2 || len(parts.Rows) != 1 || parts.Rows[0].ID != c.Partitions()[1].ID {
		t.Errorf("partitions: %+v", parts)
	}
	list := get[listView[containerRow]](t, fresh, "/api/containers?filter=C&sort=size")
	if list.Total != 1 || list.Rows[0].Name != "c" || list.Rows[0].Key != "/k" || list.Rows[0].Partitions != 2 {
		t.Errorf("containers: %+v", list)
	}
	if keys := get[keysView](t, fresh, "/api/keys?name=c"); keys.Looked != 40 || len(keys.Largest) != 10 || keys.Partial || keys.Largest[0].Bytes < keys.Largest[9].Bytes {
		t.Errorf("keys: %+v", keys)
	}
	if err := db.Close(); err != nil { // hands out the events
		t.Error(err)
	}
	if got := events.after(0); len(got) == 0 || got[len(got)-1].Number != uint64(len(got)) {
		t.Errorf("events %+v", got)
	}
	found := false
	for _, e := range events.after(0) {
		found = found || e.Kind == "split" && e.Container == "c"
	}
	if !found {
		t.Error("no event of the split")
	}
}

// TestDocuments goes through all items by pages, and through results of queries.
func TestDocuments(t *testing.T) {
	db, c := openTest(t, nil, 400)
	const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)>`
	put(t, c, `{"id":"h","k":"k1","x":"`+hostile+`"}`)
	h := Handler(db, nil)
	keys, items, from := 0, 0, ""
	for {
		page := get[pageView[keyRow]](t, h, "/api/logical?name=c&limit=7&from="+from)
		for _, k := range page.Rows {
			keys++
			at := ""
			for {
				of := get[pageView[itemRow]](t, h, "/api/items?name=c&limit=3&key="+url.QueryEscape(k.Key)+"&from="+at)
				items += len(of.Rows)
				if at = of.Next; at == "" {
					break
				}
			}
		}
		if from = page.Next; from == "" {
			break
		}
	}
	if keys != 40 || items != 401 {
		t.Errorf("%d keys, %d items", keys, items)
	}
	one := get[itemRow](t, h, `/api/item?name=c&id=h&key=%22k1%22`)
	if one.Text != `{"id":"h","k":"k1","x":"`+hostile+`"}` || one.Cut {
		t.Errorf("item: %+v", one)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, `/api/item?name=c&id=h&key=%22k1%22`, nil))
	if strings.Contains(w.Body.String(), "<") || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		t.Errorf("an answer with markup: %s, %s", w.Header().Get("Content-Type"), w.Body)
	}
	ask := func(query, more string, planOnly bool) (v queryView) {
		body, _ := json.Marshal(queryRequest{Name: "c", Query: query, Continue: more, PlanOnly: planOnly})
		if r := request(t, h, http.MethodPost, "/api/query", string(body), &v); r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", query, r.Status)
		}
		return v
	}
	v := ask("SELECT * FROM c WHERE c.n < 250", "", false)
	total := len(v.Rows)
	for v.Continue != "" {
		v = ask("SELECT * FROM c WHERE c.n < 250", v.Continue, false)
		total += len(v.Rows)
	}
	if total != 250 || v.Plan.Method != "found in indexes" || len(v.Plan.Suggest) != 0 || v.Stats.Charge <= 0 {
		t.Errorf("%d results, %+v", total, v)
	}
	for query, want := range map[string][]int{
		"SELECT TOP 2 * FROM c":                              {2},
		"SELECT TOP 250 * FROM c":                            {100, 100, 50},
		"SELECT TOP 200 * FROM c":                            {100, 100},
		"SELECT * FROM c WHERE c.n < 120 OFFSET 0 LIMIT 150": {100, 20},
	} {
		var pages []int
		for more := ""; len(pages) <= len(want); {
			v = ask(query, more, false)
			pages = append(pages, len(v.Rows))
			if more = v.Continue; more == "" {
				break
			}
		}
		if !slices.Equal(pages, want) {
			t.Errorf("%s: pages of %v rows, want %v", query, pages, want)
		}
	}
	v = ask("SELECT * FROM c WHERE c.m = 3", "", true)
	if v.Ran || len(v.Rows) != 0 || len(v.Plan.Suggest) != 1 || v.Plan.Suggest[0] != "/m/?" || v.Plan.Suggested != "found in indexes" {
		t.Errorf("plan: %+v", v)
	}
	var bad failure
	if r := request(t, h, http.MethodPost, "/api/query", `{"name":"c","query":"SELECT *\nFORM c"}`, &bad); r.StatusCode != http.StatusBadRequest || bad.Line != 2 || bad.Column == 0 {
		t.Errorf("no query: %s, %+v", r.Status, bad)
	}
}

// TestItemNames: a page of items whose documents fill the buffers of a scan has their ids.
func TestItemNames(t *testing.T) {
	db, c := openTest(t, nil, 0)
	const documents = 150
	pad := strings.Repeat("x", 1000)
	for i := range documents {
		put(t, c, fmt.Sprintf(`{"id":"%04d","k":"k1","x":"%s"}`, i, pad))
	}
	h := Handler(db, nil)
	n, from := 0, ""
	for {
		page := get[pageView[itemRow]](t, h, "/api/items?name=c&limit=50&key=%22k1%22&from="+url.QueryEscape(from))
		for _, row := range page.Rows {
			id := fmt.Sprintf("%04d", n)
			if n++; row.ID != id || !strings.HasPrefix(row.Text, `{"id":"`+id) {
				t.Errorf("item %s: id %q, %.20s", id, row.ID, row.Text)
			}
		}
		if from = page.Next; from == "" {
			break
		}
		if next := fmt.Sprintf("%04d", n); from != next {
			t.Fatalf("the next page begins at %q, want %s", from, next)
		}
	}
	if n != documents {
		t.Errorf("%d items, want %d", n, documents)
	}
}

// TestRefused sends what must be refused, and looks at the headers of each answer.
func TestRefused(t *testing.T) {
	db, c := openTest(t, nil, 10)
	split := fmt.Sprintf(`{"name":"c","partition":%d}`, c.Partitions()[0].ID)
	open := &Options{AllowSplit: true}
	for name, x := range map[string]struct {
		o                    *Options
		method, target, body string
		header               []string
		want                 int
	}{
		"page":                     {open, "GET", "/", "", nil, 200},
		"script":                   {open, "GET", "/app.js", "", nil, 200},
		"nothing":                  {open, "GET", "/nothing", "", nil, 404},
		"traversal":                {open, "GET", "/../console.go", "", nil, 307},
		"traversal encoded":        {open, "GET", "/static/%2e%2e/console.go", "", nil, 307},
		"cross-site get":           {open, "GET", "/api/store", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"same-site get":            {open, "GET", "/api/store", "", []string{"Sec-Fetch-Site", "same-site"}, 403}, // another port of this machine
		"same-origin get":          {open, "GET", "/api/store", "", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		"cross-site post":          {open, "POST", "/api/split", split, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"other origin":             {open, "POST", "/api/split", split, []string{"Origin", "http://evil.example"}, 403},
		"null origin":              {open, "POST", "/api/query", `{"name":"c","query":"SELECT * FROM c"}`, []string{"Origin", "null"}, 403},
		"two slashes":              {open, "GET", "//evil.example/", "", nil, 307}, // to /evil.example/
		"put":                      {open, "PUT", "/api/store", "", nil, 405},
		"delete":                   {open, "DELETE", "/api/item?name=c&key=%22k1%22&id=0001", "", nil, 405},
		"no name":                  {open, "GET", "/api/container?name=%FF%00", "", nil, 404},
		"no partition":             {open, "GET", "/api/cut?name=c&partition=-1", "", nil, 400},
		"no place":                 {open, "GET", "/api/cut?name=c&partition=1&at=zz", "", nil, 400},
		"no place to list from":    {open, "GET", "/api/logical?name=c&from=zz", "", nil, 400},
		"no number of an event":    {open, "GET", "/api/store?event=99999999999999999999", "", nil, 400},
		"a deep query":             {open, "POST", "/api/query", `{"name":"c","query":"SELECT * FROM c WHERE ` + strings.Repeat("(", 500_000) + `"}`, nil, 400},
		"a deep parameter":         {open, "POST", "/api/query", `{"name":"c","query":"SELECT * FROM c","parameters":{"@a":` + strings.Repeat("[", 20_000) + `}}`, nil, 400},
		"a wrong continuation":     {open, "POST", "/api/query", `{"name":"c","query":"SELECT * FROM c","continue":"AAAA"}`, nil, 400},
		"continuation of a limit":  {open, "POST", "/api/query", `{"name":"c","query":"SELECT TOP 5 * FROM c","continue":"9:AAAA"}`, nil, 400},
		"form":                     {open, "POST", "/api/split", split, []string{"Content-Type", "text/plain"}, 415},
		"split by get":             {open, "GET", "/api/split", "", nil, 405},
		"split not allowed":        {nil, "POST", "/api/split", split, nil, 404},
		"unknown member":           {open, "POST", "/api/split", `{"nane":"c"}`, nil, 400},
		"too large a body":         {open, "POST", "/api/query", `{"query":"` + strings.Repeat("x", pageapi.MaxRequest) + `"}`, nil, 400},
		"no container":             {open, "GET", "/api/container?name=none", "", nil, 404},
		"bad key":                  {open, "GET", "/api/items?name=c&key=%5B", "", nil, 400},
		"bad limit":                {open, "GET", "/api/partitions?name=c&limit=100000", "", nil, 400},
		"no documents":             {&Options{NoDocuments: true}, "GET", "/api/items?name=c&key=%22k1%22", "", nil, 404},
		"host":                     {&Options{Hosts: LocalHosts("127.0.0.1:80")}, "GET", "/", "", []string{"Host", "evil.example"}, 421},
		"local host":               {&Options{Hosts: LocalHosts("127.0.0.1:8080")}, "GET", "/", "", []string{"Host", "LOCALHOST:8080"}, 200},
		"prefix":                   {&Options{Prefix: "/debug/"}, "GET", "/debug/api/store", "", nil, 200},
		"prefix without its slash": {&Options{Prefix: "/debug"}, "GET", "/debug", "", nil, 307},
		"longer than the prefix":   {&Options{Prefix: "/debug"}, "GET", "/debugger/", "", nil, 404},
		"not authorized": {&Options{Authorize: func(_ *http.Request, a Access) error {
			if a >= AccessDocuments {
				return errors.New("figures only")
			}
			return nil
		}}, "GET", "/api/items?name=c&key=%22k1%22", "", nil, 403},
	} {
		r := request(t, Handler(db, x.o), x.method, x.target, x.body, nil, x.header...)
		if r.StatusCode != x.want {
			t.Errorf("%s: %s, want %d", name, r.Status, x.want)
		}
		for key, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			if got := r.Header.Get(key); got != want {
				t.Errorf("%s: %s: %q", name, key, got)
			}
		}
	}
	if len(c.Partitions()) != 1 {
		t.Error("a refused call has split the partition")
	}
	index, err := static.Open("index.html")
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(index); err != nil {
		t.Fatal(err)
	}
	for _, no := range []string{"style=", "onclick", "http:", "https:", "<script>"} {
		if strings.Contains(text.String(), no) {
			t.Errorf("the page has %s, which its policy refuses", no)
		}
	}
}

// TestClosed closes the store under the page: it goes on with the last figures.
func TestClosed(t *testing.T) {
	db, _ := openTest(t, nil, 50)
	h := Handler(db, nil)
	before := get[storeView](t, h, "/api/store")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if v := get[storeView](t, h, "/api/store"); v.Total.Documents != before.Total.Documents {
		t.Errorf("documents: %d, were %d", v.Total.Documents, before.Total.Documents)
	}
	for _, h := range []http.Handler{h, Handler(db, nil)} {
		if v := get[storeView](t, h, "/api/store"); v.State != "closed" {
			t.Errorf("closed: %s", v.State)
		}
		for _, target := range []string{"/api/keys?name=c", "/api/items?name=c&key=%22k1%22", "/api/logical?name=c", "/api/cut?name=c&partition=1"} {
			var f failure
			if r := request(t, h, http.MethodGet, target, "", &f); r.StatusCode != http.StatusServiceUnavailable || f.Kind != "closed" {
				t.Errorf("%s: %s, %+v", target, r.Status, f)
			}
		}
	}
}

// TestSamples: however many ask, the store is asked once a second. Requests whose clients
// are gone hold nothing.
func TestSamples(t *testing.T) {
	db, _ := openTest(t, nil, 50)
	synctest.Test(t, func(t *testing.T) {
		h := Handler(db, nil).(*handler)
		for second := range 3 {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { get[storeView](t, h, "/api/store") })
			}
			all.Wait()
			if n := len(h.watcher.points(0)); n != second+1 {
				t.Fatalf("%d samples after %d s", n, second)
			}
			time.Sleep(sampleEvery)
		}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		for range 3 * readersAtOnce {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/logical?name=c", nil).WithContext(gone))
			if w.Code == http.StatusOK {
				t.Error("an answer for nobody")
			}
		}
		if len(h.readers) != 0 {
			t.Errorf("%d places are taken", len(h.readers))
		}
	})
}

// TestBlocks adds up many partitions to what a screen can show, without losing any.
func TestBlocks(t *testing.T) {
	cs := &engine.ContainerStats{}
	const n = 65536
	for i := range n {
		p := engine.PartitionStats{ID: engine.PartitionID(i + 1), Min: fmt.Sprintf("%08X", i<<14), Max: fmt.Sprintf("%08X", (i+1)<<14), Items: 1, RawBytes: 2, Load: 3}
		cs.Partitions = append(cs.Partitions, p)
	}
	cs.Partitions[0].Min, cs.Partitions[n-1].Max = "", "FF"
	s := &sample{}
	for _, most := range []int{rowBlocks, barBlocks} {
		blocks := blocksOf(cs, s, most)
		var sum Total
		partitions, at := 0, 0.0
		for _, b := range blocks {
			if b.From != at {
				t.Fatalf("a gap before %v", b.From)
			}
			at = b.To
			partitions += b.Partitions
			sum.Documents, sum.RawBytes, sum.Units = sum.Documents+b.Documents, sum.RawBytes+b.RawBytes, sum.Units+b.Units
		}
		if len(blocks) > most || at != 1 || partitions != n || sum != (Total{Documents: n, RawBytes: 2 * n, Units: 3 * n}) {
			t.Errorf("%d blocks of at most %d, to %v: %d partitions, %+v", len(blocks), most, at, partitions, sum)
		}
	}
}

// TestRefresh follows a writer beside: the handler closes each state that it leaves.
func TestRefresh(t *testing.T) {
	writer, c := openTest(t, nil, 20)
	read := func(ctx context.Context) (*engine.DB, error) {
		return engine.Open(ctx, writer.Dir(), &engine.Options{ReadOnly: true})
	}
	first, err := read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var opened []*engine.DB
	h := Handler(first, &Options{RefreshEvery: time.Nanosecond, Refresh: func(ctx context.Context) (*engine.DB, error) {
		db, err := read(ctx)
		opened = append(opened, db)
		return db, err
	}}).(*handler)
	for i := range 3 {
		put(t, c, fmt.Sprintf(`{"id":"new %d","k":"k1"}`, i))
		h.store.refreshed = time.Time{}
		if v := get[storeView](t, h, "/api/store"); v.State != "read-only" {
			t.Errorf("state %s", v.State)
		}
		get[itemRow](t, h, fmt.Sprintf("/api/item?name=c&key=%%22k1%%22&id=new+%d", i))
	}
	for i, db := range opened {
		if db.Closed() != (i < len(opened)-1) {
			t.Errorf("state %d of %d: closed %v", i, len(opened), db.Closed())
		}
	}
	if len(opened) < 3 || first.Closed() {
		t.Errorf("%d states, the first closed: %v", len(opened), first.Closed())
	}
	h.store.now.db.Close()
}

// TestWrongMethod: a path that takes another method says which; so does the page.
func TestWrongMethod(t *testing.T) {
	db, _ := openTest(t, nil, 10)
	for _, x := range []struct{ method, target, allow string }{
		{"PUT", "/api/store", "GET, HEAD"}, {"POST", "/", "GET, HEAD"}, {"POST", "/app.js", "GET, HEAD"}, {"GET", "/api/query", "POST"},
	} {
		r := request(t, Handler(db, nil), x.method, x.target, "", nil)
		if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != x.allow {
			t.Errorf("%s %s: %s, Allow %q", x.method, x.target, r.Status, r.Header.Get("Allow"))
		}
	}
	if r := request(t, Handler(db, nil), "HEAD", "/", "", nil); r.StatusCode != http.StatusOK {
		t.Errorf("HEAD: %s", r.Status)
	}
}

// TestNoPartition: a cut of a partition that is not there names the partition.
func TestNoPartition(t *testing.T) {
	db, _ := openTest(t, nil, 10)
	h := Handler(db, &Options{AllowSplit: true})
	var cut, split failure
	a := request(t, h, "GET", "/api/cut?name=c&partition=4711", "", &cut)
	b := request(t, h, "POST", "/api/split", `{"name":"c","partition":4711}`, &split)
	if a.StatusCode != 404 || cut.Text != "no partition 4711" || b.StatusCode != 404 || split != cut {
		t.Errorf("%s, %+v; %s, %+v", a.Status, cut, b.Status, split)
	}
}

// TestCut: the beginning of a document that is text is text, wherever its characters begin.
func TestCut(t *testing.T) {
	for _, letter := range []string{"x", "é", "漢", "𝄞"} {
		for pad := range 4 {
			body := `{"id":"` + strings.Repeat("x", pad) + `","t":"` + strings.Repeat(letter, 300) + `"}`
			row := rowOf(&engine.Item{Body: []byte(body)}, shownInList)
			if !row.Cut || row.Base64 != "" || !strings.HasPrefix(body, row.Text) || len(row.Text) <= shownInList-utf8.UTFMax || len(row.Text) > shownInList {
				t.Errorf("%s after %d letters: %+v", letter, pad, row)
			}
		}
	}
	if row := rowOf(&engine.Item{Body: bytes.Repeat([]byte{0x80}, 300)}, shownInList); row.Text != "" || row.Base64 == "" || !row.Cut {
		t.Errorf("what is no text: %+v", row)
	}
}
