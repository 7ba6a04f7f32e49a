package gateway

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestAncestry: parents of a partition key range are all partitions that it descends from,
// through splits, merges, moves of a boundary and a reopen. Each such change gives the feed of
// ranges another etag, a reopen does not.
func TestAncestry(t *testing.T) {
	dir := t.TempDir()
	s := startIn(t, dir, nil)
	s.items()
	const ranges = "/dbs/d/colls/c/pkranges"
	for i := range 40 {
		key := `["` + strconv.Itoa(i) + `"]`
		s.do(201, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"`+strconv.Itoa(i)+`"}`, pk, key)
	}
	want := map[string]map[string]bool{} // the ancestors of every partition that there was
	shown := func() (parts []keyRange, etag string) {
		t.Helper()
		r := s.do(200, "GET", ranges, "")
		var page struct{ PartitionKeyRanges []keyRange }
		if err := json.Unmarshal(r.body, &page); err != nil {
			t.Fatal(err)
		}
		return page.PartitionKeyRanges, r.head.Get("etag")
	}
	check := func(what string) string {
		t.Helper()
		parts, etag := shown()
		for _, p := range parts {
			slices.Sort(p.Parents)
			if all := slices.Sorted(maps.Keys(want[p.ID])); !slices.Equal(p.Parents, all) {
				t.Errorf("%s: partition %s has the parents %v, want %v", what, p.ID, p.Parents, all)
			}
		}
		s.do(304, "GET", ranges, "", "A-IM", "Incremental Feed", "If-None-Match", etag)
		return etag
	}
	seen := map[string]bool{check("made"): true}
	for step, kind := range []string{"split", "split", "move", "merge", "split", "move", "split", "merge", "split"} {
		k, bad := s.h.catalog.container("d", "c")
		if bad != nil {
			t.Fatal(bad)
		}
		before := inEngine(k).Partitions()
		i := step % max(1, len(before)-1)
		var job *engine.ReshapeJob
		var err error
		parents := before[i:min(i+2, len(before))]
		switch kind {
		case "split":
			largest := slices.MaxFunc(before, func(a, b engine.PartitionStats) int { return int(a.Items - b.Items) })
			parents = []engine.PartitionStats{largest}
			job, err = inEngine(k).Split(t.Context(), largest.ID, nil)
		case "merge":
			job, err = inEngine(k).Merge(t.Context(), parents[0].ID, parents[1].ID)
		case "move":
			key := engine.StringKey("7").EPK()
			for n := 0; !(key.String() > parents[0].Min && key.String() < parents[1].Max && key.String() != parents[0].Max); n++ {
				key = engine.StringKey(strconv.Itoa(n)).EPK()
			}
			job, err = inEngine(k).MoveBoundary(t.Context(), parents[0].ID, parents[1].ID, key.String())
		}
		if err == nil {
			err = job.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(kind, err)
		}
		after, _ := shown()
		for _, p := range after {
			if slices.ContainsFunc(before, func(b engine.PartitionStats) bool { return strconv.Itoa(int(b.ID)) == p.ID }) {
				continue
			}
			want[p.ID] = map[string]bool{}
			for _, parent := range parents {
				id := strconv.Itoa(int(parent.ID))
				want[p.ID][id] = true
				maps.Copy(want[p.ID], want[id])
			}
		}
		etag := check(kind)
		if seen[etag] {
			t.Errorf("after a %s the etag is an earlier one, %s", kind, etag)
		}
		seen[etag] = true
		if step%3 == 2 {
			s.s.Close()
			if err := s.db.Close(); err != nil {
				t.Fatal(err)
			}
			again := startIn(t, dir, nil)
			*s = *again
			if now := check("reopened"); now != etag {
				t.Errorf("a reopen made the etag %s of %s", now, etag)
			}
		}
	}
}
