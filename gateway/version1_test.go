package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

// TestVersion1 is a client of a container of version 1: it computes the places of keys by that
// version, finds each in the physical partition that it was told, and reads it there by all
// ways that name a range.
func TestVersion1(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	r := s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":1}}`, "x-ms-offer-throughput", "30000")
	if text := string(r.body); !strings.Contains(text, `"version":1`) {
		t.Errorf("the container is %s", text)
	}
	const docs = "/dbs/d/colls/c/docs"
	keys := []string{`"redmond"`, `""`, `5`, `-0.5`, `true`, `null`, `"` + strings.Repeat("ж", 101) + `"`}
	for n := range 20 {
		keys = append(keys, fmt.Sprintf(`"key %d"`, n))
	}
	for _, key := range keys {
		s.do(201, "POST", docs, `{"id":"x","pk":`+key+`}`, pk, "["+ascii(key)+"]")
	}
	for _, key := range keys {
		of := s.do(200, "GET", docs+"/x", "", pk, "["+ascii(key)+"]").head.Get("x-ms-documentdb-partitionkeyrangeid")
		bulk := fmt.Sprintf(`[{"operationType":"Read","id":"x","partitionKey":%q}]`, "["+key+"]")
		r := s.do(200, "POST", docs, bulk, "x-ms-cosmos-is-batch-request", "True")
		if got := r.head.Get("x-ms-documentdb-partitionkeyrangeid"); got != of {
			t.Errorf("a bulk of %.20s is said to be of the range %s, which is %s", key, got, of)
		}
	}
	read := func() []keyRange {
		var page struct{ PartitionKeyRanges []keyRange }
		if err := json.Unmarshal(s.do(200, "GET", "/dbs/d/colls/c/pkranges", "").body, &page); err != nil {
			t.Fatal(err)
		}
		return page.PartitionKeyRanges
	}
	ranges := read()
	if want := fmt.Sprintf("%X", partmap.EvenBoundariesV1(len(ranges))[0].Version1()); len(ranges) < 3 || ranges[0].Max != want || ranges[len(ranges)-1].Max != "FF" {
		t.Errorf("the ranges are %+v, the first should end at %s", ranges, want)
	}
	check := func(what string) {
		t.Helper()
		ranges := read()
		found := 0
		for _, r := range ranges {
			want := []string{}
			for _, text := range keys {
				key, err := partmap.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				if epk := fmt.Sprintf("%X", partmap.HashV1(key.Encoded())); epk >= r.Min && epk < r.Max {
					want = append(want, text)
				}
			}
			found += len(want)
			for way, head := range map[string][]string{
				"partition": {"x-ms-documentdb-partitionkeyrangeid", r.ID},
				"range":     {"x-ms-start-epk", r.Min, "x-ms-end-epk", r.Max, "x-ms-read-key-type", "EffectivePartitionKeyRange"},
			} {
				body := `{"query":"SELECT c.pk FROM c"}`
				head = append(head, "x-ms-documentdb-query", "True", "Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True")
				var got struct {
					Documents []struct{ PK json.RawMessage }
				}
				if err := json.Unmarshal(s.do(200, "POST", docs, body, head...).body, &got); err != nil {
					t.Fatal(err)
				}
				var texts []string
				for _, d := range got.Documents {
					texts = append(texts, string(d.PK))
				}
				slices.Sort(texts)
				slices.Sort(want)
				if !slices.Equal(texts, want) {
					t.Errorf("%s, by %s: partition %s from %s to %s has %q, want %q", what, way, r.ID, r.Min, r.Max, texts, want)
				}
			}
		}
		if found != len(keys) {
			t.Errorf("%s: %d of %d keys lie in a range", what, found, len(keys))
		}
		for _, key := range keys {
			r := s.do(200, "GET", docs+"/x", "", pk, "["+ascii(key)+"]")
			id := r.head.Get("x-ms-documentdb-partitionkeyrangeid")
			epk := fmt.Sprintf("%X", hashV1(t, key))
			i := slices.IndexFunc(ranges, func(r keyRange) bool { return r.ID == id })
			if i < 0 || epk < ranges[i].Min || epk >= ranges[i].Max {
				t.Errorf("%s: %s lies at %s, the answer names partition %q of %+v", what, key, epk, id, ranges)
			}
		}
	}
	check("made")
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	for range 3 {
		parts := inEngine(k).Partitions()
		p := slices.MaxFunc(parts, func(a, b engine.PartitionStats) int { return int(a.Items - b.Items) })
		job, err := inEngine(k).Split(t.Context(), p.ID, nil)
		if err == nil {
			err = job.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check("split")

	// A query of one key: the plan names the range that the client computes, and ReadMany and the
	// feed find it.
	var plan struct{ QueryRanges []struct{ Min, Max string } }
	r = s.do(200, "POST", docs, `{"query":"SELECT * FROM c WHERE c.pk = 'redmond'"}`, "x-ms-cosmos-is-query-plan-request", "True", "Content-Type", "application/query+json",
		"x-ms-cosmos-query-version", "1.4", "x-ms-cosmos-supported-query-features", "OrderBy")
	if err := json.Unmarshal(r.body, &plan); err != nil {
		t.Fatal(err)
	}
	epk := fmt.Sprintf("%X", hashV1(t, `"redmond"`))
	if len(plan.QueryRanges) != 1 || epk < plan.QueryRanges[0].Min || epk >= plan.QueryRanges[0].Max || plan.QueryRanges[0].Max == "FF" && plan.QueryRanges[0].Min == "" {
		t.Errorf("the key at %s has the ranges %+v", epk, plan.QueryRanges)
	}
	for _, r := range read() {
		var got struct{ Documents []json.RawMessage }
		body := s.do(200, "POST", docs, `{"query":"SELECT * FROM c WHERE (c.id = 'x' AND c.pk = 'redmond') OR (c.id = 'x' AND c.pk = 5)"}`,
			"x-ms-documentdb-partitionkeyrangeid", r.ID, "x-ms-documentdb-query", "True", "Content-Type", "application/query+json").body
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, key := range []string{`"redmond"`, `5`} {
			if epk := fmt.Sprintf("%X", hashV1(t, key)); epk >= r.Min && epk < r.Max {
				want++
			}
		}
		if len(got.Documents) != want {
			t.Errorf("%d items of partition %s by their names, want %d", len(got.Documents), r.ID, want)
		}
	}
	r = s.do(200, "GET", docs, "", "A-IM", "Incremental Feed", pk, `["redmond"]`)
	if r.head.Get("x-ms-item-count") != "1" {
		t.Errorf("the feed of one key has %s items", r.head.Get("x-ms-item-count"))
	}
	for _, odd := range []string{"zz", "05", "08AA", "05C1DFFFFFFFFC08" + strings.Repeat("70", 40)} {
		s.do(400, "POST", docs, `{"query":"SELECT * FROM c"}`, "x-ms-start-epk", odd, "x-ms-end-epk", "FF", "x-ms-documentdb-query", "True", "Content-Type", "application/query+json")
	}

	s.do(400, "POST", "/dbs/d/colls", `{"id":"m","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":1}}`)
	s.do(400, "POST", "/dbs/d/colls", `{"id":"m","partitionKey":{"paths":["/a"],"kind":"Hash","version":3}}`)
	r = s.do(201, "POST", "/dbs/d/colls", `{"id":"m","partitionKey":{"paths":["/a"],"kind":"Hash"}}`)
	if !strings.Contains(string(r.body), `"version":2`) {
		t.Errorf("without a version: %s", r.body)
	}
}

// hashV1 returns the EPK of version 1 of a key in JSON.
func hashV1(t *testing.T, text string) []byte {
	t.Helper()
	key, err := partmap.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return partmap.HashV1(key.Encoded())
}

// ascii escapes what a header cannot have.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
