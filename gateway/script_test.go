package gateway

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway/internal/script"
)

// define makes a resource with a body, and others of its members.
func (s *server) define(path, id, body, more string) {
	s.t.Helper()
	text, _ := json.Marshal(body)
	s.do(201, "POST", path, fmt.Sprintf(`{"id":%q,"body":%s%s}`, id, text, more))
}

const coll = "/dbs/d/colls/c"

// execute runs a stored procedure that is made for it.
func (s *server) execute(want int, body, args string, head ...string) *reply {
	s.t.Helper()
	text, _ := json.Marshal(body)
	s.do(s.either("POST", coll+"/sprocs", fmt.Sprintf(`{"id":"p","body":%s}`, text)), "GET", coll+"/sprocs/p", "")
	return s.do(want, "POST", coll+"/sprocs/p", args, append([]string{pk, `["a"]`}, head...)...)
}

// either upserts a resource and returns 200.
func (s *server) either(method, path, body string) int {
	s.t.Helper()
	if r := s.send(s.signed(method, path, []byte(body), "x-ms-documentdb-is-upsert", "true")); r.status != 200 && r.status != 201 {
		s.t.Fatalf("%d %s", r.status, r.body)
	}
	return 200
}

// TestScriptResourceSpellings: of members whose names differ by case only one counts, and it is the one that was checked:
// a definition that was taken can be used, and does no harm to others.
func TestScriptResourceSpellings(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	item := []string{pk, `["a"]`}
	s.define(coll+"/udfs", "good", "function (n) { return n + 1 }", "")
	const body = `"body":null,"BODY":"function (n) { return 7 }"`
	s.do(201, "POST", coll+"/udfs", `{"id":"x",`+body+`}`)
	s.do(201, "POST", coll+"/sprocs", `{"id":"x",`+body+`}`)
	s.do(201, "POST", coll+"/triggers", `{"id":"x",`+body+`,"triggerType":"Pre","triggerOperation":"All"}`)
	s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, append(item, "x-ms-documentdb-pre-trigger-include", "x")...)
	s.do(200, "POST", coll+"/sprocs/x", "[]", item...)
	if got, _ := s.query(docs, "SELECT VALUE udf.good(udf.x(1)) FROM c"); fmt.Sprintf("%s", got) != "[8]" {
		t.Errorf("%s", got)
	}
	s.do(400, "POST", coll+"/udfs", `{"id":"y","body":"","BODY":"f"}`)
	s.do(400, "POST", coll+"/triggers", `{"id":"y",`+body+`,"triggerType":"no","TriggerType":"Pre","triggerOperation":"All"}`)
	s.do(201, "POST", "/dbs/d/users", `{"id":"u"}`)
	s.do(400, "POST", "/dbs/d/users/u/permissions", `{"id":"y","permissionMode":"Some","PermissionMode":"Read","resource":"dbs/d"}`)
}

// TestScriptResources: stored procedures, triggers and functions, users and permissions are
// made, read, listed, found, replaced, renamed and deleted, and are there after a restart.
func TestScriptResources(t *testing.T) {
	dir := t.TempDir()
	kinds := []struct{ path, feed, more, bad string }{
		{coll + "/sprocs", "StoredProcedures", `,"body":"function () { }"`, `{"id":"x"}`},
		{coll + "/triggers", "Triggers", `,"body":"serverScript() { }","triggerType":"Pre","triggerOperation":"All"`, `{"id":"x","body":"b","triggerType":"Mid","triggerOperation":"All"}`},
		{coll + "/udfs", "UserDefinedFunctions", `,"body":"function () { }"`, `{"id":"x","body":7}`},
		{"/dbs/d/users", "Users", ``, `{"id":"a/b"}`},
		{"/dbs/d/users/u/permissions", "Permissions", `,"permissionMode":"Read","resource":"dbs/d/colls/c"`, `{"id":"x","permissionMode":"Some","resource":"r"}`},
	}
	t.Run("first", func(t *testing.T) {
		s := startIn(t, dir, nil)
		s.items()
		s.do(201, "POST", "/dbs/d/users", `{"id":"u"}`)
		for _, k := range kinds {
			r := s.do(201, "POST", k.path, `{"id":"one"`+k.more+`}`)
			etag := r.head.Get("etag")
			for _, name := range []string{"_rid", "_self", "_etag", "_ts"} {
				if r.member(t, name) == nil {
					t.Errorf("%s: no %s in %s", k.path, name, r.body)
				}
			}
			s.do(409, "POST", k.path, `{"id":"one"`+k.more+`}`)
			s.do(400, "POST", k.path, k.bad)
			s.do(400, "POST", k.path, "{")
			s.do(200, "POST", k.path, `{"id":"one","extra":1`+k.more+`}`, "x-ms-documentdb-is-upsert", "True")
			s.do(412, "PUT", k.path+"/one", `{"id":"one"`+k.more+`}`, "If-Match", etag)
			s.do(201, "POST", k.path, `{"id":"two"`+k.more+`}`)
			s.do(409, "PUT", k.path+"/two", `{"id":"one"`+k.more+`}`)
			s.do(200, "PUT", k.path+"/two", `{"id":"three"`+k.more+`}`)
			s.do(404, "GET", k.path+"/two", "")
			s.do(404, "DELETE", k.path+"/two", "")
			s.do(404, "PUT", k.path+"/two", `{"id":"two"`+k.more+`}`)
			if r = s.do(200, "POST", k.path, `{"query":"SELECT * FROM root r WHERE r.id=@id","parameters":[{"name":"@id","value":"three"}]}`,
				"x-ms-documentdb-isquery", "True"); r.member(t, "_count") != 1.0 {
				t.Errorf("%s: %s", k.path, r.body)
			}
		}
	})
	t.Run("second", func(t *testing.T) {
		s := startIn(t, dir, nil)
		for _, k := range kinds {
			r := s.do(200, "GET", k.path+"/one", "")
			if r.member(t, "extra") != 1.0 {
				t.Errorf("%s: %s", k.path, r.body)
			}
			s.do(200, "GET", k.path+"/"+fmt.Sprint(r.member(t, "_rid")), "")
			s.do(304, "GET", k.path+"/one", "", "If-None-Match", r.head.Get("etag"))
			n := 2
			if k.feed == "Users" {
				n++
			}
			if all, _ := s.do(200, "GET", k.path, "").member(t, k.feed).([]any); len(all) != n {
				t.Errorf("%s: %d, want %d", k.path, len(all), n)
			}
			s.do(204, "DELETE", k.path+"/three", "")
			s.do(404, "GET", k.path+"/three", "")
		}
		// What belongs to what is deleted goes too.
		s.do(204, "DELETE", "/dbs/d/users/u", "")
		s.do(404, "GET", "/dbs/d/users/u/permissions/one", "")
		s.do(204, "DELETE", coll, "")
		s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
		s.do(404, "GET", coll+"/sprocs/one", "")
		for set := range s.h.catalog.resources {
			if set.kind != kindUser {
				t.Errorf("%+v is left", set)
			}
		}
		if r := s.do(200, "GET", coll+"/conflicts", ""); r.member(t, "_count") != 0.0 {
			t.Errorf("%s", r.body)
		}
	})
}

// TestScriptBytes: the scripts of a kind have a bound in bytes together, since all of them are in memory. There, one may still be
// replaced by a smaller one.
func TestScriptBytes(t *testing.T) {
	s := start(t, nil)
	s.items()
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	s.h.catalog.keepResource(&child{record: resourceRecord{
		Owner: k.record.Number, Type: kindProcedure, Name: "large", RID: "large", Definition: make(json.RawMessage, 16<<20-1000),
	}})
	const path = coll + "/sprocs"
	text := func(id string, size int) string {
		return fmt.Sprintf(`{"id":%q,"body":%q}`, id, strings.Repeat("x", size))
	}
	s.do(201, "POST", path, text("a", 500))
	s.do(403, "POST", path, text("b", 500))
	s.do(403, "PUT", path+"/a", text("a", 1000))
	s.do(200, "PUT", path+"/a", text("a", 1))
	s.do(201, "POST", path, text("b", 900))
	s.do(201, "POST", coll+"/udfs", text("a", 500)) // another kind
}

// TestProcedure: a stored procedure reads and writes in its logical partition, sees what it
// has written, and gives its result.
func TestProcedure(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"1","pk":"a","n":1,"list":[1,2]}`, pk, `["a"]`)
	s.do(201, "POST", docs, `{"id":"2","pk":"b","n":1}`, pk, `["b"]`)
	r := s.execute(200, `function (prefix, more) {
		const c = getContext().getCollection(), link = c.getSelfLink(), out = [];
		const end = (x) => { out.push(x); getContext().getResponse().setBody(out) };
		c.createDocument(link, {id: prefix + "1", pk: "a", n: 5}, (err, made) => {
			if (err) throw err;
			c.readDocument(made._self, (err, read) => { end(read.n) });
			c.replaceDocument(made._self, {id: prefix + "1", pk: "a", n: 6}, (err, d) => { end(d.n) });
			c.queryDocuments(link, {query: "SELECT VALUE c.n FROM c WHERE c.n >= @n ORDER BY c.n DESC", parameters: [{name: "@n", value: 1}]}, (err, feed) => { end(feed) });
			c.queryDocuments(link, "SELECT * FROM c WHERE c.n > 0", {pageSize: 1}, function (err, feed, o) {
				end(feed.length);
				c.queryDocuments(link, "SELECT c.id FROM c WHERE c.n > 0", {pageSize: 1, continuation: o.continuation}, (err, feed, o) => end([feed[0].id, o.continuation]));
			});
			c.queryDocuments(link, "SELECT VALUE x FROM x IN c.list", (err, feed) => { end(feed) });
			c.queryDocuments(link, "SELECT COUNT(1) AS n, c.pk FROM c GROUP BY c.pk", (err, feed) => { end(feed) });
			c.upsertDocument(link, {pk: "a"}, (err, d) => { end(typeof d.id); c.deleteDocument(d._self, (err) => end(err)) });
			c.readDocument(c.getAltLink() + "/docs/1", (err, d) => { c.deleteDocument(d._self, {etag: d._etag}) });
		});
		c.readDocument(c.getAltLink() + "/docs/2", (err) => { end(err.number) });
		c.createDocument(link, {id: "1", pk: "a"}, (err) => { end(err.number) });
		c.createDocument(link, {id: "3", pk: "b"}, (err) => { end(err.number) });
		c.queryDocuments(link, "SELECT", (err) => { end(err.number) });
		c.readDocument("dbs/d/colls/other/docs/1", (err) => { end(err.number) });
		out.push(more);
	}`, `["p",{"a":[1]}]`)
	want := `[{"a":[1]},404,409,400,400,400,5,6,[6,1],1,[1,2],[{"n":2,"pk":"a"}],"string",["p1",null],null]`
	if got := string(r.body); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if all, _ := s.query(docs, "SELECT c.id FROM c", pk, `["a"]`); fmt.Sprintf("%s", all) != `[{"id":"p1"}]` {
		t.Errorf("%s", all)
	}
	if r.head.Get("x-ms-session-token") == "" || r.head.Get("x-ms-request-charge") == "0.00" {
		t.Errorf("%v", r.head)
	}
	s.do(404, "POST", coll+"/sprocs/none", `[]`, pk, `["a"]`)
	s.do(400, "POST", coll+"/sprocs/p", `{}`, pk, `["a"]`)
	s.do(400, "POST", coll+"/sprocs/p", `[]`)
	r = s.execute(200, `function () { console.log("a b %s", "ü") }`, "", "x-ms-documentdb-script-enable-logging", "true")
	if got, _ := url.PathUnescape(r.head.Get("x-ms-documentdb-script-log-results")); got != "a b ü" || len(r.body) != 0 {
		t.Errorf("%q %q", got, r.body)
	}
	if r = s.execute(200, `function () { console.log("a b") }`, ""); r.head.Get("x-ms-documentdb-script-log-results") != "" {
		t.Error("a log that nobody asked for")
	}
}

// TestProcedureIsAtomic: nothing is written by a script that throws, whose operation fails
// without a callback, that is too slow, or that dies; and the next request is answered.
func TestProcedureIsAtomic(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"0","pk":"a"}`, pk, `["a"]`)
	for _, c := range []struct {
		end    string
		status int
		sub    string
	}{
		{`throw new Error("no")`, 400, ""},
		{`throw Object.assign(new Error("no"), {number: 1234})`, 400, "1234"},
		{`getContext().abort("no")`, 400, ""},
		{`__.createDocument("", {id: "0", pk: "a"})`, 400, "409"},
		{`__.deleteDocument(__.getAltLink() + "/docs/none")`, 400, "404"},
		{`for (;;);`, 408, ""},
		{`const a = []; for (;;) a.push("x".repeat(1e5) + a.length)`, 400, ""},
		{`__.response.setBody({get a() { throw 1 }})`, 400, ""},
		{`__.response.setBody("x".repeat(20 << 20))`, 400, ""},
	} {
		s.h.scripts = script.NewPool(1, limitsFor(c.status))
		r := s.execute(c.status, `function () { __.createDocument(__.getSelfLink(), {id: "1", pk: "a"}, (err) => { if (err) throw err; `+c.end+` }) }`, "")
		if r.sub() != c.sub {
			t.Errorf("%s: sub-status %q, want %q", c.end, r.sub(), c.sub)
		}
		if all, _ := s.query(docs, "SELECT VALUE c.id FROM c"); fmt.Sprintf("%s", all) != `["0"]` {
			t.Fatalf("%s: %s", c.end, all)
		}
	}
	if r := s.execute(400, `function (`, ""); r.sub() != "65535" {
		t.Errorf("sub-status %q", r.sub())
	}
	s.h.scripts = script.NewPool(1, limitsFor(200))
	s.execute(200, `function () { __.createDocument("", {id: "1", pk: "a"}) }`, "")
	s.do(200, "GET", docs+"/1", "", pk, `["a"]`)
}

// TestProcedureConflict: a script whose reads another request has changed runs again.
func TestProcedureConflict(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"n","pk":"a","n":0}`, pk, `["a"]`)
	s.define(coll+"/sprocs", "add", `function () {
		__.readDocument(__.getAltLink() + "/docs/n", (err, d) => { d.n++; __.replaceDocument(d._self, d) });
	}`, "")
	const workers, each = 4, 5
	done := make(chan int, workers)
	for range workers {
		go func() {
			n := 0
			for n < each {
				if s.send(s.signed("POST", coll+"/sprocs/add", nil, pk, `["a"]`)).status == 200 {
					n++
				}
			}
			done <- n
		}()
	}
	for range workers {
		<-done
	}
	if r := s.do(200, "GET", docs+"/n", "", pk, `["a"]`); r.member(t, "n") != float64(workers*each) {
		t.Errorf("%s", r.body)
	}
}

// TestProcedureLimits: a script writes a thousand documents, and is told when there is no
// more room.
func TestProcedureLimits(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	many := `function (size, wanted) {
		let made = 0, x = "x".repeat(size);
		(function next() {
			if (made < wanted && __.createDocument("", {id: "d" + made, pk: "a", x}, (err) => { if (err) throw err; made++; next() })) return;
			__.response.setBody(made);
		})();
	}`
	if r := s.execute(200, many, `[10,1000]`); string(r.body) != "1000" {
		t.Errorf("%s", r.body)
	}
	if all, _ := s.query(docs, "SELECT VALUE COUNT(1) FROM c", pk, `["a"]`); fmt.Sprintf("%s", all) != "[1000]" {
		t.Errorf("%s", all)
	}
	s.h.scripts = script.NewPool(1, script.Limits{Time: 5 * time.Minute, Memory: 512 << 20})
	var n int
	if err := json.Unmarshal(s.execute(200, strings.ReplaceAll(many, `"d"`, `"e"`), `[100000,1000]`).body, &n); err != nil || n < 20 || n > 40 {
		t.Errorf("%d documents of 100,000 bytes, %v", n, err)
	}
}

// TestProcedureLimitsOfLongKeys: what a transaction holds counts with keys and ids, so a script is told in time that there is no more room.
func TestProcedureLimitsOfLongKeys(t *testing.T) {
	s := start(t, nil)
	s.items()
	s.h.scripts = script.NewPool(1, script.Limits{Time: 5 * time.Minute, Memory: 512 << 20})
	s.define(coll+"/sprocs", "many", `function (pk) {
		let made = 0, id = "x".repeat(1000);
		(function next() {
			if (__.createDocument("", {id: id + made, pk}, (err) => { if (err) throw err; made++; next() })) return;
			__.response.setBody(made);
		})();
	}`, "")
	key := strings.Repeat("k", 2000)
	r := s.do(200, "POST", coll+"/sprocs/many", `["`+key+`"]`, pk, `["`+key+`"]`)
	if n, err := strconv.Atoi(string(r.body)); err != nil || n < 550 || n > 650 {
		t.Errorf("%s documents, %v", r.body, err)
	}
}

// TestTriggers: triggers change what is written and write beside it, in one transaction.
func TestTriggers(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	triggers := coll + "/triggers"
	s.define(triggers, "upper", `function () { const r = getContext().getRequest(), d = r.getBody(); d.id = d.id.toUpperCase() + r.getOperationType(); r.setBody(d) }`,
		`,"triggerType":"Pre","triggerOperation":"All"`)
	s.define(triggers, "stamp", `function () { const r = getContext().getRequest(), d = r.getBody(); d.from = r.getValue("x-app"); r.setBody(d) }`,
		`,"triggerType":"pre","triggerOperation":"create"`)
	s.define(triggers, "count", `function () {
		const d = getContext().getResponse().getBody(), c = getContext().getCollection();
		if (d && getContext().getRequest().getBody() && d.id !== getContext().getRequest().getBody().id) throw "mismatch";
		c.queryDocuments(c.getSelfLink(), "SELECT * FROM c WHERE c.id = 'count'", (err, feed) => {
			const n = feed[0] || {id: "count", pk: "a", n: 0};
			n.n++;
			c.upsertDocument(c.getSelfLink(), n);
		});
	}`, `,"triggerType":"Post","triggerOperation":"All"`)
	s.define(triggers, "never", `function () { throw new Error("never") }`, `,"triggerType":"Post","triggerOperation":"Delete"`)
	s.define(triggers, "broken", `serverScript() { }`, `,"triggerType":"Pre","triggerOperation":"All"`)
	const pre, post = "x-ms-documentdb-pre-trigger-include", "x-ms-documentdb-post-trigger-include"
	key := []string{pk, `["a"]`}
	with := func(more ...string) []string { return append(key[:2:2], more...) }
	r := s.do(201, "POST", docs, `{"id":"one","pk":"a"}`, with(pre, "upper,stamp", post, "count", "x-app", "tests")...)
	if r.member(t, "id") != "ONECreate" || r.member(t, "from") != "tests" || r.head.Get("etag") == "" {
		t.Errorf("%s", r.body)
	}
	s.do(200, "PUT", docs+"/ONECreate", `{"id":"ONECreate","pk":"a","n":2}`, with(post, "count")...)
	s.do(201, "POST", docs, `{"id":"two","pk":"a"}`, "x-ms-documentdb-is-upsert", "True", post, "count") // the document names the key
	s.do(200, "PATCH", docs+"/two", `{"operations":[{"op":"set","path":"/x","value":1}]}`, with(post, "count")...)
	s.do(204, "DELETE", docs+"/two", "", with(post, "count")...)
	count := func(want float64) {
		t.Helper()
		if r := s.do(200, "GET", docs+"/count", "", key...); r.member(t, "n") != want {
			t.Errorf("%s, want %v", r.body, want)
		}
	}
	count(5)
	for _, c := range []struct {
		header, name string
		sub          string
	}{
		{pre, "none", ""}, {pre, "count", ""}, {post, "upper", ""}, {post, "never", ""}, {pre, "broken", "65535"}, {pre, "upper,upper,upper,upper,upper,upper", ""},
	} {
		if r := s.do(400, "POST", docs, `{"id":"three","pk":"a"}`, with(c.header, c.name)...); r.sub() != c.sub {
			t.Errorf("%s: %s", c.name, r.body)
		}
	}
	// What the post-trigger throws takes back the write and what triggers have written.
	s.do(400, "DELETE", docs+"/ONECreate", "", with(post, "count,never")...)
	s.do(200, "GET", docs+"/ONECreate", "", key...)
	count(5)
	s.do(409, "POST", docs, `{"id":"count","pk":"a"}`, with(post, "count")...)
	s.do(412, "PUT", docs+"/ONECreate", `{"id":"ONECreate","pk":"a"}`, with(post, "count", "If-Match", `"1"`)...)
	s.do(400, "POST", docs, `{"id":"x","pk":"b"}`, with(post, "count")...)
	s.do(400, "POST", docs, `{`, with(post, "count")...)
	count(5)
	s.do(200, "PATCH", docs+"/ONECreate", `[{"op":"set","path":"/n","value":3}]`, with(post, "count")...) // without "operations" around them
	count(6)
}

// TestScriptsAskAsClients: queries of scripts have the results of the same queries of clients, whatever
// they have behind FROM.
func TestScriptsAskAsClients(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"1","pk":"a","tags":["x","y"],"o":{"l":[1,2]}}`, pk, `["a"]`)
	s.do(201, "POST", docs, `{"id":"2","pk":"a","tags":["x"],"o":{"l":[7]}}`, pk, `["a"]`)
	for _, text := range []string{
		"SELECT VALUE d.id FROM c AS d", "SELECT * FROM c.o", "SELECT * FROM c.o.l", "SELECT VALUE x FROM c.o.l x", "SELECT VALUE x FROM x IN c.o['l'] ORDER BY x DESC",
		"SELECT * FROM x IN c.tags", "SELECT VALUE d.id FROM c d JOIN t IN d.tags WHERE t = 'y'", "SELECT VALUE l[0] FROM c.o.l",
		"SELECT VALUE t FROM (SELECT VALUE c.id FROM c) AS t", "SELECT VALUE t FROM (SELECT VALUE 1) AS t", "SELECT * FROM (SELECT c.id FROM c) AS t",
		"SELECT VALUE t.x FROM (SELECT x, c.id FROM c JOIN x IN c.tags) t", "SELECT VALUE t FROM t IN (SELECT VALUE c.tags FROM c)",
		"SELECT VALUE u FROM (SELECT VALUE x FROM x IN c.tags WHERE x = 'y') AS u", "SELECT VALUE u FROM (SELECT VALUE z FROM (SELECT VALUE c.id FROM c) AS z) AS u",
		"SELECT VALUE COUNT(1) FROM (SELECT VALUE c.id FROM c) AS t",
	} {
		list, _ := s.query(docs, text, pk, `["a"]`)
		want := "[" + strings.Join(texts(list), ",") + "]"
		asked, _ := json.Marshal(text)
		r := s.execute(200, `function () {
			__.queryDocuments(__.getSelfLink(), `+string(asked)+`, function (err, list) { if (err) throw err; getContext().getResponse().setBody(list) })
		}`, "[]")
		if got := string(r.body); got != want || len(list) == 0 {
			t.Errorf("%s: a script finds %s, a client %s", text, got, want)
		}
	}
	text := "SELECT VALUE t FROM (SELECT VALUE COUNT(1) FROM x IN c.tags) AS t"
	s.do(400, "POST", docs, `{"query":"`+text+`"}`, "x-ms-documentdb-query", "True", "Content-Type", "application/query+json", pk, `["a"]`)
	s.execute(400, `function () { __.queryDocuments(__.getSelfLink(), "`+text+`") }`, "[]")
}

// TestFunctionsInScripts: queries of scripts and triggers call user-defined functions, in the process of
// the script, also where all places of scripts are taken. What functions throw is told to the script, and an
// endless one ends with it.
func TestFunctionsInScripts(t *testing.T) {
	s := start(t, nil)
	s.h.scripts = script.NewPool(4, script.Limits{Time: time.Minute, Memory: script.DefaultLimits.Memory})
	docs := s.items()
	for i := range 4 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"a","n":%d}`, i, i), pk, `["a"]`)
	}
	udfs := coll + "/udfs"
	s.define(udfs, "twice", "function (n) { return n === undefined ? undefined : 2 * n }", "")
	s.define(udfs, "fails", "function () { throw new Error('no such luck') }", "")
	s.define(udfs, "huge", "function () { return 'x'.repeat(17 << 20) }", "")
	ask := func(text string) string {
		q, _ := json.Marshal(text)
		return `function () {
			__.queryDocuments(__.getSelfLink(), ` + string(q) + `, function (err, list) { getContext().getResponse().setBody(err ? "told: " + err.message : list) })
		}`
	}
	for text, want := range map[string]string{
		"SELECT VALUE c.id FROM c WHERE udf.twice(c.n) > 3":                                    `["2","3"]`,
		"SELECT VALUE udf.twice(c.n) FROM c ORDER BY udf.twice(c.n) DESC":                      `[6,4,2,0]`,
		"SELECT VALUE SUM(udf.twice(c.n)) FROM c":                                              `[12]`,
		"SELECT VALUE [udf.twice(c.missing), udf.twice(udf.twice(1))] FROM c WHERE c.id = '0'": `[[4]]`,
	} {
		if r := s.execute(200, ask(text), "[]"); string(r.body) != want {
			t.Errorf("%s: %s, want %s", text, r.body, want)
		}
	}
	for text, want := range map[string]string{
		"SELECT VALUE udf.fails() FROM c": "no such luck",
		"SELECT VALUE udf.none() FROM c":  "there is no function udf.none",
		"SELECT VALUE udf.huge() FROM c":  "too large",
	} {
		if r := s.execute(200, ask(text), "[]"); !strings.Contains(string(r.body), "told: ") || !strings.Contains(string(r.body), want) {
			t.Errorf("%s: %.200s, want %s", text, r.body, want)
		}
	}
	// A script calls functions between its writes, several times.
	r := s.execute(200, `function () {
		const self = __.getSelfLink(), out = []
		const sum = (next) => __.queryDocuments(self, "SELECT VALUE SUM(udf.twice(c.n)) FROM c", (err, list) => { if (err) throw err; out.push(list[0]); next() })
		sum(() => __.createDocument(self, {id: "9", pk: "a", n: 10}, (err) => { if (err) throw err; sum(() => getContext().getResponse().setBody(out)) }))
	}`, "[]")
	if string(r.body) != "[12,32]" {
		t.Errorf("sums %s", r.body)
	}
	// One place is enough: a script does not wait for a second one.
	s.h.scripts = script.NewPool(1, script.Limits{Time: script.DefaultLimits.Time, Memory: script.DefaultLimits.Memory})
	if r := s.execute(200, ask("SELECT VALUE MAX(udf.twice(c.n)) FROM c"), "[]"); string(r.body) != "[20]" {
		t.Errorf("with one place: %s", r.body)
	}
	s.define(udfs, "endless", "function () { for (;;) { } }", "")
	s.h.scripts = script.NewPool(1, script.Limits{Time: time.Second, Memory: script.DefaultLimits.Memory})
	s.execute(408, ask("SELECT VALUE udf.endless() FROM c"), "[]")
	s.h.scripts = script.NewPool(1, script.DefaultLimits)
	s.define(coll+"/triggers", "t", `function () {
		__.queryDocuments(__.getSelfLink(), "SELECT VALUE COUNT(1) FROM c WHERE udf.twice(c.n) >= 0", function (err, list) {
			if (err) throw err
			const d = getContext().getRequest().getBody(); d.others = list[0]; getContext().getRequest().setBody(d)
		})
	}`, `,"triggerType":"Pre","triggerOperation":"All"`)
	if r := s.do(201, "POST", docs, `{"id":"t","pk":"a"}`, pk, `["a"]`, "x-ms-documentdb-pre-trigger-include", "t"); r.member(t, "others") != 5.0 {
		t.Errorf("the trigger has made %s", r.body)
	}
}

// TestLinksInScripts: a script finds a document by the names of its database and container, whatever these are.
func TestLinksInScripts(t *testing.T) {
	s := start(t, nil)
	const path = "/dbs/docs/colls/docs"
	s.do(201, "POST", "/dbs", `{"id":"docs"}`)
	s.do(201, "POST", "/dbs/docs/colls", `{"id":"docs","partitionKey":{"paths":["/pk"]}}`)
	s.do(201, "POST", path+"/docs", `{"id":"1","pk":"a","n":7}`, pk, `["a"]`)
	s.define(path+"/sprocs", "p", `function () {
		const read = (link, next) => __.readDocument(link, (err, d) => { if (err) throw err; next(d) });
		read(__.getAltLink() + "/docs/1", (d) => read(d._self, (d) => __.response.setBody(d.n)));
	}`, "")
	if r := s.do(200, "POST", path+"/sprocs/p", "[]", pk, `["a"]`); string(r.body) != "7" {
		t.Errorf("%s", r.body)
	}
}
