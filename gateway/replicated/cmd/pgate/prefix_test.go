package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/transport"
)

// client returns a client of the cluster beside the gateway.
func (n *nodes) client(t *testing.T) *client.Client {
	t.Helper()
	d, err := cluster.Load(filepath.Join(n.dir, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := transport.LoadCredentials(filepath.Join(n.dir, "client"))
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(client.Config{Cluster: d, Credentials: credentials})
	t.Cleanup(c.Close)
	return c
}

// prefixes: queries, lists and feeds of the first levels of a key have the items of all keys that begin so, also when a group
// splits among these.
func (g *gate) prefixes(nodes *nodes) {
	t := g.t
	const path, each = "/dbs/shop/colls/levels", 24
	g.want(201, "POST", "/dbs/shop/colls", `{"id":"levels","partitionKey":{"paths":["/a","/b","/c"],"kind":"MultiHash","version":2}}`)
	put := func(i, n int) {
		for _, a := range []string{"x", "y"} {
			g.ask("POST", path+"/docs", fmt.Sprintf(`{"id":"%s%d","a":%q,"b":"b%d","c":%d,"n":%d}`, a, i, a, i%3, i, n), pk, fmt.Sprintf(`[%q,"b%d",%d]`, a, i%3, i), "x-ms-documentdb-is-upsert", "true")
		}
	}
	for i := range each {
		put(i, i)
	}
	numbers := func(body string) (out []int) {
		t.Helper()
		var page struct{ Documents []struct{ N int } }
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Documents {
			out = append(out, d.N)
		}
		return out
	}
	list := func(head ...string) (all []int) {
		t.Helper()
		for next := ""; ; {
			a := g.want(200, "GET", path+"/docs", "", append(head, "x-ms-max-item-count", "5", "x-ms-continuation", next)...)
			all = append(all, numbers(a.body)...)
			if next = a.head.Get("x-ms-continuation"); next == "" {
				slices.Sort(all)
				return all
			}
		}
	}
	feed := func(etag string, head ...string) (all []int, after string) {
		t.Helper()
		for {
			a := g.ask("GET", path+"/docs", "", append(head, "A-IM", "Incremental Feed", "x-ms-max-item-count", "5", "If-None-Match", etag)...)
			if etag = a.head.Get("etag"); a.status == 304 {
				slices.Sort(all)
				return all, etag
			} else if a.status != 200 {
				t.Fatal(a.status, a.body)
			}
			all = append(all, numbers(a.body)...)
		}
	}
	keys := map[string][]int{`["x"]`: {}, `["x","b1"]`: {}, `["x","b1",4]`: {4}, `["none"]`: nil}
	for i := range each {
		keys[`["x"]`] = append(keys[`["x"]`], i)
		if i%3 == 1 {
			keys[`["x","b1"]`] = append(keys[`["x","b1"]`], i)
		}
	}
	etags := make(map[string]string)
	check := func() {
		t.Helper()
		for key, want := range keys {
			if got := list(pk, key); !slices.Equal(got, want) {
				t.Errorf("list of %s: %v, want %v", key, got, want)
			}
			got, after := feed("", pk, key)
			if etags[key] = after; !slices.Equal(got, want) {
				t.Errorf("feed of %s: %v, want %v", key, got, want)
			}
		}
		got, _ := g.levels(path, `["x"]`, "SELECT VALUE c.n FROM c WHERE c.n >= 20")
		if slices.Sort(got); fmt.Sprint(got) != "[20 21 22 23]" {
			t.Errorf("a query with a filter: %v", got)
		}
	}
	check()
	if got, _ := g.levels(path, `["x"]`, "SELECT VALUE c.n FROM c WHERE c.n < 4 ORDER BY c.n DESC"); fmt.Sprint(got) != "[3 2 1 0]" {
		t.Errorf("a query with an order, of one group: %v", got)
	}
	g.want(400, "GET", path+"/docs", "", pk, `["x","b1",4,5]`)

	c := nodes.client(t)
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Read(within, 1, "shop.levels", engine.JoinKeys(engine.StringKey("x"), engine.StringKey("b1"), engine.NumberKey(4)), "x4"); err != nil {
		t.Fatal(err) // the client knows the groups now
	}
	group := c.GroupOf("shop.levels", engine.StringKey("x"))
	for right := uint64(900); right < 902; right++ {
		if err := c.Split(within, group, group>>32<<32|right); err != nil {
			t.Fatal(err)
		}
	}
	g.until("the gateway shows three ranges", func() bool {
		var known struct {
			Count int `json:"_count"`
		}
		if err := json.Unmarshal([]byte(g.want(200, "GET", path+"/pkranges", "").body), &known); err != nil {
			t.Fatal(err)
		}
		return known.Count == 3
	})
	before := etags
	etags = make(map[string]string)
	check()
	for key, etag := range before { // these are of before the splits
		if got, _ := feed(etag, pk, key); len(got) > 0 {
			t.Errorf("feed of %s: %v comes again", key, got)
		}
	}
	put(4, 104)
	for key, etag := range before {
		got, _ := feed(etag, pk, key)
		if want := len(keys[key]) > 0; want && fmt.Sprint(got) != "[104]" || !want && len(got) > 0 {
			t.Errorf("feed of %s: %v", key, got)
		}
	}
	_, refused := g.levels(path, `["x"]`, "SELECT VALUE COUNT(1) FROM c")
	if refused.status != 400 || refused.head.Get("x-ms-substatus") != "1004" {
		t.Errorf("an aggregate of a prefix in several groups: %+v", refused)
	}
	if got, _ := g.levels(path, `["x","b1",7]`, "SELECT VALUE COUNT(1) FROM c"); fmt.Sprint(got) != "[1]" {
		t.Errorf("an aggregate of a whole key: %v", got)
	}
	g.want(204, "DELETE", path, "")
}

// levels asks for the numbers that a query of a key gives, in one page.
func (g *gate) levels(path, key, text string) (values []int, a answer) {
	g.t.Helper()
	body, err := json.Marshal(map[string]string{"query": text})
	if err != nil {
		g.t.Fatal(err)
	}
	a = g.ask("POST", path+"/docs", string(body), pk, key, "Content-Type", "application/query+json", "x-ms-documentdb-isquery", "true", "x-ms-max-item-count", "100")
	var page struct{ Documents []int }
	if err = json.Unmarshal([]byte(a.body), &page); err != nil {
		g.t.Fatal(a.status, a.body, err)
	}
	return page.Documents, a
}
