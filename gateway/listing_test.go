package gateway

import (
	"strings"
	"testing"
)

// TestListsAreDeleted: a client goes through a list in pages and deletes what it is shown. It meets everything, of databases,
// containers, scripts and offers.
func TestListsAreDeleted(t *testing.T) {
	s := start(t, nil)
	of := func(path string) func(string) string { return func(id string) string { return path + "/" + id } }
	for _, c := range []struct {
		path, member, more string
		deletes            func(id string) string
		head               []string
	}{
		{"/dbs", "Databases", "", of("/dbs"), nil},
		{"/dbs/d/colls", "DocumentCollections", `,"partitionKey":{"paths":["/pk"]}`, of("/dbs/d/colls"), nil},
		{coll + "/sprocs", "StoredProcedures", `,"body":"1"`, of(coll + "/sprocs"), nil},
		{"/offers", "Offers", "", nil, nil},
	} {
		switch c.path {
		case "/offers":
			for _, id := range []string{"y", "x", "z"} {
				s.do(201, "POST", "/dbs", `{"id":"`+id+`"}`, "x-ms-offer-throughput", "400")
			}
			owners := map[string]string{}
			for _, o := range s.do(200, "GET", "/dbs", "").member(t, "Databases").([]any) {
				d := o.(map[string]any)
				owners[d["_rid"].(string)] = d["id"].(string)
			}
			byOffer := map[string]string{}
			for _, o := range s.do(200, "GET", "/offers", "").member(t, "Offers").([]any) {
				d := o.(map[string]any)
				byOffer[d["id"].(string)] = "/dbs/" + owners[d["offerResourceId"].(string)]
			}
			c.deletes = func(id string) string { return byOffer[id] }
		default:
			if c.path == coll+"/sprocs" {
				s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
			}
			for _, id := range []string{"k", "ü", "a", "l"} {
				s.do(201, "POST", c.path, `{"id":"`+id+`"`+c.more+`}`)
			}
		}
		seen := 0
		for next := ""; ; {
			with := []string{"x-ms-max-item-count", "1"}
			if next != "" {
				with = append(with, "x-ms-continuation", next)
			}
			r := s.do(200, "GET", c.path, "", with...)
			for _, one := range r.member(t, c.member).([]any) {
				id := one.(map[string]any)["id"].(string)
				s.do(204, "DELETE", c.deletes(id), "")
				seen++
			}
			if next = r.head.Get("x-ms-continuation"); next == "" {
				break
			}
		}
		left := s.do(200, "GET", c.path, "")
		if all, _ := left.member(t, c.member).([]any); len(all) != 0 || seen < 3 {
			t.Errorf("%s: %d were seen, %d are left", c.path, seen, len(all))
		}
		if c.path == "/dbs" {
			s.do(201, "POST", "/dbs", `{"id":"d"}`)
		}
		if c.path == coll+"/sprocs" {
			s.do(204, "DELETE", "/dbs/d", "")
		}
	}
	s.do(400, "GET", "/dbs", "", "x-ms-continuation", "1")
	for _, id := range []string{"a", "b", "c", "d"} {
		s.do(201, "POST", "/dbs", `{"id":"`+id+`"}`)
	}
	var got []string
	for next := ""; ; {
		with := []string{"x-ms-documentdb-isquery", "True", "x-ms-max-item-count", "1"}
		if next != "" {
			with = append(with, "x-ms-continuation", next)
		}
		r := s.do(200, "POST", "/dbs", `{"query":"SELECT * FROM c WHERE c.id != 'z' OFFSET 1 LIMIT 2"}`, with...)
		for _, one := range r.member(t, "Databases").([]any) {
			got = append(got, one.(map[string]any)["id"].(string))
		}
		if next = r.head.Get("x-ms-continuation"); next == "" {
			break
		}
	}
	if text := strings.Join(got, " "); text != "b c" {
		t.Errorf("the query finds %s, want b c", text)
	}
}
