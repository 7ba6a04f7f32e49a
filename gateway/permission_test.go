package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway/internal/resourceid"
)

// TestResourceTokens: a token opens what its permission says, as long as the permission is as
// it was and the token has not expired, and nothing else.
func TestResourceTokens(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := start(t, &Options{Clock: func() time.Time { return now }})
	docs := s.items()
	s.do(201, "POST", "/dbs/d/colls", `{"id":"other","partitionKey":{"paths":["/pk"]}}`)
	one := s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, pk, `["a"]`)
	s.do(201, "POST", docs, `{"id":"2","pk":"b"}`, pk, `["b"]`)
	s.do(201, "POST", "/dbs/d/users", `{"id":"u"}`)
	s.do(201, "POST", "/dbs", `{"id":"e"}`)
	s.do(201, "POST", "/dbs/e/users", `{"id":"u"}`)
	self := s.do(200, "GET", coll, "").member(t, "_self")
	tokens := map[string]string{}
	for name, c := range map[string][2]string{
		"read": {"d", `"permissionMode":"Read","resource":"dbs/d/colls/c"`}, "all": {"d", fmt.Sprintf(`"permissionMode":"All","resource":%q`, self)},
		"item": {"d", fmt.Sprintf(`"permissionMode":"All","resource":%q`, one.member(t, "_self"))}, "name": {"d", `"permissionMode":"Read","resource":"dbs/d/colls/c/docs/1"`},
		"key": {"d", `"permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":["a"]`}, "far": {"e", `"permissionMode":"All","resource":"dbs/d/colls/c"`},
		"wide": {"d", `"permissionMode":"All","resource":"dbs/d"`}, "user": {"d", `"permissionMode":"All","resource":"dbs/d/users/u"`},
	} {
		r := s.do(201, "POST", "/dbs/"+c[0]+"/users/u/permissions", fmt.Sprintf(`{"id":%q,%s}`, name, c[1]))
		tokens[name], _ = r.member(t, "_token").(string)
	}
	try := func(want int, token, method, path, body string, head ...string) {
		t.Helper()
		r := s.signed(method, path, []byte(body), head...)
		r.Header.Set("Authorization", url.QueryEscape(token))
		if got := s.send(r); got.status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, got.status, want, got.body)
		}
	}
	query := []string{"x-ms-documentdb-isquery", "True", "x-ms-documentdb-query-enablecrosspartition", "true"}
	const all, upsert = `{"query":"SELECT * FROM c"}`, `{"id":"1","pk":"a"}`
	a, b := []string{pk, `["a"]`}, []string{pk, `["b"]`}
	for name, want := range map[string][8]int{
		//        account, container, read 1, read 2, query, write 1, other container, all containers
		"read": {200, 200, 200, 200, 200, 403, 403, 403},
		"all":  {200, 200, 200, 200, 200, 200, 403, 403},
		"item": {200, 200, 200, 403, 403, 403, 403, 403},
		"name": {200, 200, 200, 403, 403, 403, 403, 403},
		"key":  {200, 200, 200, 403, 403, 200, 403, 403},
		"far":  {200, 403, 403, 403, 403, 403, 403, 403},
		"wide": {200, 403, 403, 403, 403, 403, 403, 403},
		"user": {200, 403, 403, 403, 403, 403, 403, 403},
	} {
		token := tokens[name]
		try(want[0], token, "GET", "/", "")
		try(want[1], token, "GET", coll, "")
		try(want[2], token, "GET", docs+"/1", "", a...)
		try(want[3], token, "GET", docs+"/2", "", b...)
		try(want[4], token, "POST", docs, all, query...)
		try(want[5], token, "POST", docs, upsert, append(a, "x-ms-documentdb-is-upsert", "true")...)
		try(want[6], token, "GET", "/dbs/d/colls/other", "")
		try(want[7], token, "GET", "/dbs/d/colls", "")
		try(403, token, "GET", "/dbs/d/users/u/permissions", "")
	}
	try(200, tokens["item"], "PUT", docs+"/1", upsert, a...)
	// A batch writes, whatever else its headers say, and the operations of a bulk have keys of their own.
	const created = `[{"operationType":"Create","resourceBody":{"id":"3","pk":"a"}}]`
	const bulk = `[{"operationType":"Read","partitionKey":"[\"b\"]","id":"2"}]`
	batch := append(a, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True")
	several := append(a, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "False", "x-ms-documentdb-partitionkeyrangeid", "0")
	try(403, tokens["read"], "POST", docs, created, batch...)
	try(403, tokens["read"], "POST", docs, created, append(batch, "x-ms-documentdb-isquery", "True")...)
	try(403, tokens["read"], "POST", docs, created, append(batch, "Content-Type", "application/query+json")...)
	try(403, tokens["read"], "POST", docs, bulk, append(several, "x-ms-documentdb-isquery", "True")...)
	try(200, tokens["key"], "POST", docs, created, batch...)
	try(403, tokens["key"], "POST", docs, bulk, several...)
	try(403, tokens["key"], "PUT", coll, `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":1}`, a...)
	try(403, tokens["key"], "DELETE", coll, "", a...)
	script := `{"id":"p","body":"function () {}"}`
	try(403, tokens["key"], "POST", coll+"/sprocs", script, a...)
	try(201, tokens["all"], "POST", coll+"/sprocs", script)
	try(200, tokens["key"], "POST", coll+"/sprocs/p", "[]", a...)
	try(403, tokens["key"], "POST", coll+"/sprocs/p", "[]", b...)
	try(403, tokens["key"], "DELETE", coll+"/sprocs/p", "", a...)
	try(403, tokens["read"], "DELETE", coll, "")
	try(401, tokens["read"]+"0", "GET", "/", "")
	try(401, "type=resource&ver=1.0&sig=;;", "GET", "/", "")
	s.do(200, "PUT", "/dbs/d/users/u/permissions/read", `{"id":"read","permissionMode":"Read","resource":"dbs/d/colls/other"}`)
	try(401, tokens["read"], "GET", coll, "")
	s.do(204, "DELETE", "/dbs/d/users/u", "")
	try(401, tokens["all"], "GET", coll, "")
	short := s.do(201, "POST", "/dbs/e/users/u/permissions", `{"id":"short","permissionMode":"All","resource":"dbs/e/colls/x"}`, "x-ms-documentdb-expiry-seconds", "10")
	token, _ := short.member(t, "_token").(string)
	try(http.StatusOK, token, "GET", "/", "")
	now = now.Add(10 * time.Second)
	try(401, token, "GET", "/", "")
}

// TestPermissionOfDropped: a permission is for the container that is there when it is made, not for another one that gets its name.
func TestPermissionOfDropped(t *testing.T) {
	s := start(t, nil)
	s.items()
	s.do(201, "POST", "/dbs/d/users", `{"id":"u"}`)
	const of, made = `{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"}`, `{"id":"c","partitionKey":{"paths":["/pk"]}}`
	token := func(r *reply) string { text, _ := r.member(t, "_token").(string); return text }
	try := func(what string, want int, token string) {
		t.Helper()
		r := s.signed("GET", coll+"/docs", nil)
		r.Header.Set("Authorization", url.QueryEscape(token))
		if got := s.send(r); got.status != want {
			t.Errorf("%s: %d, want %d: %s", what, got.status, want, got.body)
		}
	}
	const path = "/dbs/d/users/u/permissions"
	before := token(s.do(201, "POST", path, of))
	try("as it was", 200, before)
	s.do(204, "DELETE", coll, "")
	try("dropped", 403, before)
	absent := token(s.do(201, "POST", path, strings.Replace(of, `"p"`, `"absent"`, 1)))
	s.do(201, "POST", "/dbs/d/colls", made)
	try("made again", 403, before)
	try("a new token", 403, token(s.do(200, "GET", path+"/p", "")))
	try("made while there was none", 403, absent)
	try("replaced", 200, token(s.do(200, "PUT", path+"/p", of)))
}

// TestNamedAsAnother: a user whose name is the resource id of another one is not taken for it. So the deletion of the other one makes
// its tokens void, and an upsert does not rename it.
func TestNamedAsAnother(t *testing.T) {
	s := start(t, nil)
	s.items()
	const users = "/dbs/d/users"
	c := s.h.catalog
	number := c.database("d").record.Number
	rid := resourceid.Item(resourceid.Container(number, number), c.numbers.Items+2) // that of the second resource from here on
	s.do(201, "POST", users, `{"id":"`+rid+`"}`)
	if got := s.do(201, "POST", users, `{"id":"a"}`).member(t, "_rid"); got != rid {
		t.Fatalf("the resource id %v, want %s", got, rid)
	}
	made := s.do(201, "POST", users+"/a/permissions", `{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"}`)
	read := s.signed("GET", coll, nil)
	read.Header.Set("Authorization", url.QueryEscape(made.member(t, "_token").(string)))
	if r := s.send(read); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	s.do(204, "DELETE", users+"/a", "")
	if r := s.send(read); r.status != 401 {
		t.Errorf("the token of a user that was deleted: %d, want 401", r.status)
	}
	s.do(404, "GET", users+"/a", "")
	s.do(200, "GET", users+"/"+rid, "")
	b := s.do(201, "POST", users, `{"id":"b"}`).member(t, "_rid").(string)
	s.do(409, "POST", users, `{"id":"`+b+`"}`, "x-ms-documentdb-is-upsert", "true")
	s.do(200, "GET", users+"/b", "")
}

// TestTokenAge: a token is valid for as long as the request says, a day at most.
func TestTokenAge(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := start(t, &Options{Clock: func() time.Time { return now }})
	s.items()
	s.do(201, "POST", "/dbs/d/users", `{"id":"u"}`)
	for i, c := range []struct {
		asked string
		want  time.Duration
	}{
		{"10", 10 * time.Second}, {"86400", maxTokenAge}, {"86401", maxTokenAge}, {"9223372037", maxTokenAge}, {"9223372036854775807", maxTokenAge},
		{"92233720368547758080", maxTokenAge}, {"0", defaultTokenAge}, {"-1", defaultTokenAge}, {"soon", defaultTokenAge},
	} {
		r := s.do(201, "POST", "/dbs/d/users/u/permissions", fmt.Sprintf(`{"id":"%d","permissionMode":"Read","resource":"dbs/d/colls/c"}`, i), "x-ms-documentdb-expiry-seconds", c.asked)
		token, _ := r.member(t, "_token").(string)
		if want := fmt.Sprint(";", now.Add(c.want).Unix()); !strings.HasSuffix(token, want) {
			t.Errorf("%s seconds: %s, want …%s", c.asked, token, want)
		}
	}
}

// TestPermissionOfScript: a permission for a stored procedure, by its resource id or by its name, opens that one by either, and no other.
func TestPermissionOfScript(t *testing.T) {
	s := start(t, nil)
	s.items()
	s.do(201, "POST", "/dbs/d/users", `{"id":"u"}`)
	var self [2]string
	for i, name := range []string{"p", "q"} {
		r := s.do(201, "POST", coll+"/sprocs", fmt.Sprintf(`{"id":%q,"body":"function () {}"}`, name))
		self[i], _ = r.member(t, "_self").(string)
	}
	for i, resource := range []string{self[0], "dbs/d/colls/c/sprocs/p"} {
		r := s.do(201, "POST", "/dbs/d/users/u/permissions", fmt.Sprintf(`{"id":"%d","permissionMode":"All","resource":%q}`, i, resource))
		token, _ := r.member(t, "_token").(string)
		for path, want := range map[string]int{
			coll + "/sprocs/p": 200, "/" + strings.Trim(self[0], "/"): 200, coll + "/sprocs/q": 403, "/" + strings.Trim(self[1], "/"): 403, coll + "/triggers/p": 403,
		} {
			r := s.signed("POST", path, []byte("[]"), pk, `["a"]`)
			r.Header.Set("Authorization", url.QueryEscape(token))
			if got := s.send(r); got.status != want {
				t.Errorf("a permission for %s, %s: %d, want %d: %s", resource, path, got.status, want, got.body)
			}
		}
	}
}
