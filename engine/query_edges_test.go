package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/partmap"
)

// TestQueryInfinities: what numbers of both infinities sum up to is no value.
func TestQueryInfinities(t *testing.T) {
	for _, policy := range []IndexPolicy{{}, IndexAll()} {
		s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, Index: policy}, nil)
		for i, n := range []string{"1e999", "-1e999", "7"} {
			s.upsert(NumberKey(1), `,"k":1,"n":`+n, fmt.Sprint(i), "")
		}
		for text, want := range map[string]string{
			"SELECT SUM(c.n), AVG(c.n), MAX(c.n) FROM c": `{"$3":1e999}`,
			"SELECT SUM(c.n) AS s FROM c WHERE c.n > 0":  `{"s":1e999}`,
		} {
			q, err := ParseQuery(text, nil)
			must(s.t, err)
			if list, err := results(s.c.Query(context.Background(), AllPartitions(), q)); err != nil || len(list) != 1 || list[0] != want {
				t.Errorf("%s: %v, %v; want %s", text, list, err, want)
			}
		}
	}
}

// TestQueryInNone: nothing is in an empty list, and every value is not.
func TestQueryInNone(t *testing.T) {
	for _, policy := range []IndexPolicy{{}, IndexAll(), {Include: []string{"/n/?"}}} {
		s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, Index: policy}, nil)
		for i, n := range []string{`,"n":1`, `,"n":null`, `,"n":[]`, ``} {
			s.upsert(NumberKey(1), `,"k":1`+n, fmt.Sprint(i), "")
		}
		for _, test := range []struct {
			f    Filter
			want int64
		}{{In("/n"), 0}, {Not(In("/n")), 3}, {Not(Not(In("/n"))), 0}, {Or(In("/n"), Exists("/n")), 3}} {
			if n, err := s.c.Count(context.Background(), AllPartitions(), test.f); err != nil || n != test.want {
				t.Errorf("%v: %d, %v; want %d", test.f, n, err, test.want)
			}
		}
	}
}

// TestContinuationScope: a continuation that somebody made does not lead out of
// the scope of the query.
func TestContinuationScope(t *testing.T) {
	s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/t", "/k"}, Index: IndexAll()}, nil)
	for i := range 4 {
		s.upsert(JoinKeys(StringKey("mine"), NumberKey(float64(i))), fmt.Sprintf(`,"t":"mine","k":%d`, i), "a", "")
		s.upsert(JoinKeys(StringKey("other"), NumberKey(float64(i))), fmt.Sprintf(`,"t":"other","k":%d`, i), "b", "")
	}
	foreign := exec.Position{Key: JoinKeys(StringKey("other"), NumberKey(1)), ID: "a"}
	for _, order := range [][]QueryOrder{nil, {{Path: "/v"}}} {
		for _, scope := range []Scope{OnePartition(JoinKeys(StringKey("mine"), NumberKey(1))), PrefixOf(StringKey("mine"))} {
			q := Query{OrderBy: order}
			selected, err := q.compile()
			must(s.t, err)
			at := foreign
			for range order {
				at.Order = []byte{0}
			}
			q.Continue = at.Text(exec.Hash(s.c.id, scope.String(), selected), false)
			if list, err := results(s.c.Query(context.Background(), scope, q)); !errors.Is(err, ErrBadContinuation) {
				t.Errorf("%v: %v, %v", scope, list, err)
			}
		}
	}
}

// TestOrderWhileExpiring: documents that expire while an index gives the first in
// order do not hide those that come after them.
func TestOrderWhileExpiring(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one goroutine sees all partitions
	for ttl := 8; ttl < 20; ttl += 3 {
		orderWhileExpiring(t, ttl)
	}
}

func orderWhileExpiring(t *testing.T, ttl int) {
	var clock *testClock
	def := ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll(), MinPartitions: 2, DefaultTTL: time.Hour}
	s := newSplitStore(t, def, func(o *Options) { clock = newTestClock(o) })
	var key [2]int // of each physical partition
	for i, p := range s.c.routing.Load().parts {
		for epk := NumberKey(0).EPK(); !p.Range.Contains(&epk); epk = NumberKey(float64(key[i])).EPK() {
			key[i]++
		}
	}
	const wanted = 612 // more than a scan shows to a query at a time
	n := 0
	add := func(part, ttl, count int) {
		for range count {
			s.upsert(NumberKey(float64(key[part])), fmt.Sprintf(`,"k":%d,"n":%d,"ttl":%d`, key[part], n, ttl), fmt.Sprintf("i%05d", n), "")
			n++
		}
	}
	add(0, ttl, wanted) // the first in order, which expire
	add(0, -1, 50)
	add(1, -1, wanted)
	now := s.db.opts.clock
	s.db.opts.clock = func() time.Time { // time passes between the batches of the scan
		clock.pass(3 * time.Second)
		return now()
	}
	next := wanted // of those that do not expire
	for it, err := range s.c.Query(context.Background(), AllPartitions(), Query{OrderBy: []QueryOrder{{Path: "/n"}}, Limit: wanted}).All() {
		must(s.t, err)
		if at, err := strconv.Atoi(it.ID[1:]); err != nil || at >= wanted && at != next {
			t.Fatalf("%s where %d comes next, %v", it.ID, next, err)
		} else if at >= wanted {
			next++
		}
	}
}

// TestQuerySnapshotInSteps: a query with a limit as of a snapshot, a step of which ends
// between two versions of a document, sees neither what was deleted nor what was
// overwritten.
func TestQuerySnapshotInSteps(t *testing.T) {
	defer func(old uint32) { exec.Limits.FirstStep = old }(exec.Limits.FirstStep)
	exec.Limits.FirstStep = 1 // then 8
	ctx := context.Background()
	s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()}, nil)
	key := StringKey("k0")
	snapshot := func() *Snapshot {
		at, err := s.c.Snapshot(ctx)
		must(s.t, err)
		t.Cleanup(func() { at.Close() })
		return at
	}
	for i := range 8 {
		s.put(0, fmt.Sprint(i), "old")
	}
	snapshot() // a flush keeps what it sees
	var want []string
	for i := range 4 {
		must(s.t, s.c.Delete(ctx, key, fmt.Sprint(i), nil))
		id := fmt.Sprint(4 + i)
		s.put(0, id, "new")
		want = append(want, s.docs[itemID{"c", key, id}])
	}
	at := snapshot()
	s.put(0, "8", "later")
	for _, where := range []string{"memtable", "file"} {
		for _, scope := range []Scope{AllPartitions(), OnePartition(key)} {
			got, err := results(at.Query(ctx, scope, Query{Where: Exists("/v"), Limit: 100}))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, %v, not %q", where, scope, got, err, want)
			}
		}
		must(s.t, s.db.Flush(ctx))
	}
}

// TestDeletionVectorsOfTwoReferences: a partition can have references to one file in two
// runs; what a newer file overwrites in one of them is found beside the other.
func TestDeletionVectorsOfTwoReferences(t *testing.T) {
	s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()}, nil)
	ctx := context.Background()
	middle, err := partmap.ParseEPK("20")
	must(s.t, err)
	side := func(right bool, n int, text string) {
		for k, found := 0.0, 0; found < n; k++ {
			if epk := NumberKey(k).EPK(); epk.Compare(&middle) >= 0 == right {
				s.upsert(NumberKey(k), fmt.Sprintf(`,"k":%v`, k), "a", text)
				found++
			}
		}
	}
	flush := func() { must(s.t, s.db.Flush(ctx)) }
	side(true, 5, "1")
	flush()
	side(true, 10, "2")
	side(false, 10, "2")
	flush()
	side(false, 10, "3")
	flush()
	// The file in the middle is written anew, so that the newest does not know it
	// once the store was opened again.
	p := s.c.routing.Load().parts[0]
	runs := p.Version.Load().Runs
	must(s.t, writeAnew(ctx, &p.Tree, runs[1].Files[0]))
	s.split(0, &SplitOptions{At: "20"})
	s.reopen(s.mem.Kill())
	s.merge(0)
	list := s.c.routing.Load().parts[0].Version.Load().Runs
	if len(list) != 2 || len(list[0].Files) != 2 || len(list[1].Files) != 2 || list[0].Files[1].Ref.Number != list[1].Files[0].Ref.Number {
		t.Fatal("the runs are not what the test is about")
	}
	if n, err := s.c.Count(ctx, AllPartitions(), Exists("/v")); err != nil || n != 20 {
		t.Fatalf("%d documents, %v; want 20", n, err)
	}
}
