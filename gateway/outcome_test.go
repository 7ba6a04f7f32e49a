package gateway

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// uncertain is a catalogue of which some writes are answered with an error: an unknown outcome, as of a record that waits for disk
// space, or another one.
type uncertain struct {
	Items
	left    int   // writes that are answered so
	carried bool  // they are carried out nevertheless
	err     error // what they are answered with
}

func (u *uncertain) UpsertAll(ctx context.Context, key engine.PartitionKey, docs [][]byte) ([]engine.Meta, error) {
	if u.left == 0 {
		return u.Items.UpsertAll(ctx, key, docs)
	}
	u.left--
	if u.carried {
		if _, err := u.Items.UpsertAll(ctx, key, docs); err != nil {
			return nil, err
		}
	}
	return nil, u.err
}

// fails has the next writes of the catalogue fail.
func (s *server) fails(n int, carried bool, err error) {
	s.h.catalog.store = &uncertain{s.h.catalog.store, n, carried, fmt.Errorf("the catalogue: %w", err)}
}

// again serves the store anew, as after a restart.
func (s *server) again(o *Options) {
	s.t.Helper()
	h, err := New(s.t.Context(), s.db, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.h, s.s.Config.Handler = h, h
}

// TestDropOfUnknownOutcome: after a drop of a database whose outcome is not known no write to it is acknowledged that the next
// open drops with the database.
func TestDropOfUnknownOutcome(t *testing.T) {
	for n := range 3 {
		for _, carried := range []bool{false, true} {
			s := start(t, nil)
			docs := s.items()
			s.do(201, "POST", docs, `{"id":"before","pk":"a"}`, pk, `["a"]`)
			s.fails(n, carried, engine.ErrOutcomeUnknown)
			dropped := s.send(s.signed("DELETE", "/dbs/d", nil)).status
			wrote := s.send(s.signed("POST", docs, []byte(`{"id":"after","pk":"a"}`), pk, `["a"]`)).status
			s.again(nil)
			if read := s.send(s.signed("GET", docs+"/after", nil, pk, `["a"]`)).status; wrote == 201 && read != 200 {
				t.Errorf("%d lost answers, carried out %t: the drop was answered %d, a write after it %d, and a read after a restart %d", n, carried, dropped, wrote, read)
			}
			if read := s.send(s.signed("GET", docs+"/before", nil, pk, `["a"]`)).status; (read == 404) != (dropped == 204 || carried) {
				t.Errorf("%d lost answers, carried out %t: the drop was answered %d, a read after a restart %d", n, carried, dropped, read)
			}
		}
	}
}

// TestNumberOfUnknownOutcome: a database that may have been made has a number that no other one gets.
func TestNumberOfUnknownOutcome(t *testing.T) {
	s := start(t, nil)
	s.fails(1, true, engine.ErrOutcomeUnknown)
	s.do(500, "POST", "/dbs", `{"id":"a"}`)
	s.do(201, "POST", "/dbs", `{"id":"b"}`)
	s.do(201, "POST", "/dbs/b/users", `{"id":"u"}`)
	s.again(nil)
	s.do(200, "GET", "/dbs/b/users/u", "")
	if a, b := s.do(200, "GET", "/dbs/a", "").member(t, "_rid"), s.do(200, "GET", "/dbs/b", "").member(t, "_rid"); a == b {
		t.Errorf("two databases have the resource id %v, and the same users: %s", a, s.send(s.signed("GET", "/dbs/a/users", nil)).body)
	}
}

// TestFailedChange: a change of a container that is answered with an error has changed nothing.
func TestFailedChange(t *testing.T) {
	s := start(t, &Options{Throttle: true})
	s.items("x-ms-offer-throughput", "500")
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	offer := "/offers/" + fmt.Sprint(k.offer()["id"])
	before := k.items.Def()
	s.fails(2, false, engine.ErrDiskFull)
	s.do(503, "PUT", coll, `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":1,"indexingPolicy":{"indexingMode":"none"}}`)
	s.do(503, "PUT", offer, `{"content":{"offerThroughput":900}}`)
	if after := k.items.Def(); after.DefaultTTL != before.DefaultTTL || after.Throughput != before.Throughput || fmt.Sprint(after.Index) != fmt.Sprint(before.Index) {
		t.Errorf("items live %v, %v RU/s, index %v; want %v, %v and %v, which clients are shown", after.DefaultTTL, after.Throughput, after.Index, before.DefaultTTL, before.Throughput, before.Index)
	}
	s.do(200, "PUT", coll, `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":1,"indexingPolicy":{"indexingMode":"none"}}`)
	s.do(200, "PUT", offer, `{"content":{"offerThroughput":900}}`)
	if after := k.items.Def(); after.DefaultTTL == before.DefaultTTL || after.Throughput != 900 {
		t.Errorf("items live %v, %v RU/s", after.DefaultTTL, after.Throughput)
	}
}

// TestUniqueKeyAfterRead: a batch that a unique key refuses names the operation that wrote the item, not one that read it before.
func TestUniqueKeyAfterRead(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}`)
	const docs = "/dbs/d/colls/c/docs"
	s.do(201, "POST", docs, `{"id":"1","pk":"a","u":1}`, pk, `["a"]`)
	s.do(201, "POST", docs, `{"id":"2","pk":"a","u":2}`, pk, `["a"]`)
	got := s.batch(207, docs, `[{"operationType":"Read","id":"2"},{"operationType":"Replace","id":"2","resourceBody":{"id":"2","pk":"a","u":1}}]`, pk, `["a"]`, "x-ms-cosmos-batch-atomic", "true")
	if fmt.Sprint(statuses(got)) != "[424 409]" {
		t.Errorf("%v, want 424 for the read and 409 for the write", statuses(got))
	}
}
