package gateway

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
)

// another is a store in which another program makes a container just before the gateway makes one of the same name.
type another struct {
	local
	def engine.ContainerDef
}

func (a another) CreateContainer(ctx context.Context, name string, def engine.ContainerDef) (Items, error) {
	c, err := a.db.CreateContainer(ctx, name, a.def)
	if err == nil {
		_, err = c.Upsert(ctx, []byte(`{"id":"theirs","other":"k","pk":"k"}`), nil)
	}
	if err != nil {
		return nil, err
	}
	return a.local.CreateContainer(ctx, name, def)
}

// TestForeignContainer: another program makes a container of the name while the gateway makes one, or after a crash has
// interrupted the gateway. The gateway neither drops that container nor shows it.
func TestForeignContainer(t *testing.T) {
	const wanted = `{"id":"c","partitionKey":{"paths":["/pk"]}}`
	for name, theirs := range map[string]engine.ContainerDef{
		"another key":  {PartitionKey: []string{"/other"}},
		"a version":    {PartitionKey: []string{"/pk"}, HashVersion: 1},
		"a unique key": {PartitionKey: []string{"/pk"}, UniqueKeys: [][]string{{"/u"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			s.do(201, "POST", "/dbs", `{"id":"d"}`)
			s.h.catalog.db = another{local{s.db}, theirs}
			s.do(409, "POST", "/dbs/d/colls", wanted)
			theirsIsThere := func() {
				t.Helper()
				c, err := s.db.Container("d.c")
				if err != nil {
					t.Fatal(err)
				}
				if n, err := c.Count(t.Context(), engine.AllPartitions(), engine.Filter{}); err != nil || n != 1 {
					t.Errorf("%d items of the other program, want 1: %v", n, err)
				}
			}
			theirsIsThere()

			// A crash between the record and the container.
			k := &container{record: containerRecord{
				ID: resourceid.ContainerRecord("d", "c"), Kind: kindContainer, Database: "d", Name: "c", Number: 9, State: stateReady, Store: "d.c",
				Definition: containerProperties{ID: "c", PartitionKey: &keyDefinition{Paths: []string{"/pk"}, Kind: kindHash, Version: 2}},
			}}
			if bad := k.record.Definition.complete(); bad != nil {
				t.Fatal(bad)
			}
			if _, err := s.h.catalog.put(t.Context(), &k.record); err != nil {
				t.Fatal(err)
			}
			var err error
			if s.h, err = New(t.Context(), s.db, nil); err != nil {
				t.Fatal(err)
			}
			s.s.Config.Handler = s.h
			s.do(404, "GET", "/dbs/d/colls/c", "")
			theirsIsThere()
			s.do(201, "POST", "/dbs/d/colls", wanted)
			s.do(201, "POST", "/dbs/d/colls/c/docs", `{"id":"ours","pk":"k"}`, "x-ms-documentdb-partitionkey", `["k"]`)
			s.do(204, "DELETE", "/dbs/d", "")
			theirsIsThere()
		})
	}
}

// TestOwnContainer: a container that the gateway has made is found again, however its paths are written.
func TestOwnContainer(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	made := 0
	for i, key := range []string{`["/pk"]`, `["/\"pk\""]`, `["/\"a b\"/c"]`, `["/a/\"b\""]`, `["/é"]`, `["/\"a/b\""]`, `["/a","/\"b\"","/c"]`, `["/id"]`} {
		for k, unique := range []string{`[]`, `[{"paths":["/u"]}]`, `[{"paths":["/\"u\""]}]`, `[{"paths":["/\"u v\"/w","/x"]},{"paths":["/é"]}]`, `[{"paths":["/z","/y"]}]`, `[{"paths":["/z"]},{"paths":["/y"]}]`} {
			for version := range 3 {
				body := fmt.Sprintf(`{"id":"c%d-%d-%d","partitionKey":{"paths":%s,"version":%d},"uniqueKeyPolicy":{"uniqueKeys":%s},"defaultTtl":%d}`, i, k, version, key, version, unique, 10+k)
				if s.send(s.signed("POST", "/dbs/d/colls", []byte(body))).status == 201 {
					made++
				}
			}
		}
	}
	h, err := New(t.Context(), s.db, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(h.Containers()); n != made || made < 80 {
		t.Errorf("%d of %d containers are there", n, made)
	}
}

// refusing is a store that refuses a definition, after another program has made a container of the name.
type refusing struct {
	local
	err error
}

func (r refusing) CreateContainer(ctx context.Context, name string, _ engine.ContainerDef) (Items, error) {
	if _, err := r.db.CreateContainer(ctx, name, engine.ContainerDef{PartitionKey: []string{"/other"}}); err != nil {
		return nil, err
	}
	return nil, r.err
}

// TestForeignRefused: nothing is dropped after a definition that the store has refused, since it has made nothing.
func TestForeignRefused(t *testing.T) {
	for _, refusal := range []error{&Fault{Status: 501, Message: "changeFeedPolicy"}, fmt.Errorf("a definition: %w", engine.ErrInvalid)} {
		s := start(t, nil)
		s.do(201, "POST", "/dbs", `{"id":"d"}`)
		s.h.catalog.db = refusing{local{s.db}, refusal}
		if a := s.send(s.signed("POST", "/dbs/d/colls", []byte(`{"id":"c","partitionKey":{"paths":["/pk"]}}`))); a.status != 501 && a.status != 400 {
			t.Errorf("%v: %d", refusal, a.status)
		}
		if _, err := s.db.Container("d.c"); err != nil {
			t.Errorf("%v: the container of the other program: %v", refusal, err)
		}
		s.do(404, "GET", "/dbs/d/colls/c", "")
	}
}
