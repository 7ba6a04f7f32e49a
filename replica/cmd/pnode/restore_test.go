package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/meta"
)

// TestArguments: what restore shows for a container that is missing makes it, whatever its name and paths are.
func TestArguments(t *testing.T) {
	for want, c := range map[string]cluster.Container{
		"orders:/k:2": {Name: "orders", PartitionKey: []string{"/k"}, Partitions: 2},
		"'quoted:/\"a,b\",/c:2' --unique '/\"d,e\",/f'": {
			Name: "quoted", PartitionKey: []string{"/a,b", "/c"}, Partitions: 2, UniqueKeys: [][]string{{`/"d,e"`, "/f"}},
		},
		"--ttl=5 -- -dash:/k:1": {Name: "-dash", PartitionKey: []string{"/k"}, Partitions: 1, DefaultTTL: 5},
		"'a:b c:/x,/y:1' --index '{\"include\":[\"/*\"]}' --ttl=-1 --unique /u,/v --unique '/it'\\''s'": {
			Name: "a:b c", PartitionKey: []string{"/x", "/y"}, Partitions: 1, Index: engine.IndexAll(), DefaultTTL: -1, UniqueKeys: [][]string{{"/u", "/v"}, {"/it's"}},
		},
	} {
		got := arguments(&c)
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if _, name, has := strings.Cut(got, "-- -"); has {
			got = "-" + name
		}
		word, _, _ := strings.Cut(strings.Trim(got, "'"), "'")
		word, _, _ = strings.Cut(word, " --")
		again, err := parseContainer(word)
		if err != nil || again.Name != c.Name || !slices.EqualFunc(again.PartitionKey, c.PartitionKey, samePath) || again.Partitions != c.Partitions {
			t.Errorf("%s: %+v, %v", word, again, err)
		}
		again.UniqueKeys, again.DefaultTTL = c.UniqueKeys, c.DefaultTTL
		if err = new(restoreCommand).compare(&c, &again); err != nil {
			t.Errorf("what restore shows is refused: %v", err)
		}
	}
}

func samePath(x, y string) bool { return slices.Equal(jsondoc.KeyPath(x), jsondoc.KeyPath(y)) }

// TestOrphans: a backup with a group of a container that it does not define is none: it could not be restored.
func TestOrphans(t *testing.T) {
	b := backup{Groups: []backupGroup{{ID: 1, Container: "late", Max: "FF"}}}
	if err := b.whole(); err == nil || !strings.Contains(err.Error(), `"late"`) {
		t.Error(err)
	}
}

// TestNewer: of the definitions of a container that nodes have, the newest one counts, in whatever order the nodes answer.
func TestNewer(t *testing.T) {
	all := []cluster.Container{{Name: "x", Number: 70000, Revision: 3}, {Name: "x", Number: 70001}, {Name: "x", Number: 70001, Revision: 2}, {Name: "x", Number: 70001, Revision: 1}}
	for at := range all {
		known := make(map[string]cluster.Container)
		for i := range all {
			if c := all[(at+i)%len(all)]; newer(&c, known) {
				known[c.Name] = c
			}
		}
		if c := known["x"]; c.Number != 70001 || c.Revision != 2 {
			t.Errorf("from %d on: %+v", at, c)
		}
	}
}

// TestNewest: a backup and a promotion have a container as it was changed last, its default time to live too.
func TestNewest(t *testing.T) {
	d := &cluster.Cluster{Containers: []cluster.Container{
		{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 1, DefaultTTL: 86400, MutableTTL: true},
		{Name: "items", PartitionKey: []string{"/k"}, Partitions: 1},
	}}
	changed := d.Containers[0]
	changed.Number = 1
	if _, err := changed.Retime(-1); err != nil {
		t.Fatal(err)
	}
	changed.Index = engine.IndexAll()
	other := cluster.Container{Name: "items", Number: 70000, Revision: 5, Index: engine.IndexAll()}
	late := cluster.Container{Name: "late", Number: 70001}
	got := newest(d, []cluster.Container{changed, other, late})
	if len(got) != 3 || got[2].Number != late.Number {
		t.Fatalf("%+v", got)
	}
	want := d.Containers[0]
	want.Index, want.Revision, want.DefaultTTL, want.FirstTTL, want.TTLRevision = engine.IndexAll(), 1, -1, 86400, 1
	if !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v, want %+v", got[0], want)
	}
	if !reflect.DeepEqual(got[1], d.Containers[1]) {
		t.Errorf("that of another container with the name was taken: %+v", got[1])
	}
	if d.Containers[0].Revision != 0 {
		t.Error("the description was changed")
	}
}

// TestChangedDefault: after a restore an item that said no time to live goes by the default of its container, whatever the group went
// by when the item was written, and one whose write said a time keeps it, also where it was that of the default or nothing expired.
func TestChangedDefault(t *testing.T) {
	ctx := t.Context()
	now := time.UnixMilli(1_700_000_000_123)
	for _, tc := range []struct{ first, written, restored int64 }{
		{20, 20, 20}, {20, 3600, 3600}, {3600, 3600, 20}, {-1, -1, -1}, {20, -1, 20}, {0, 0, 0}, {20, 20, 0}, {0, 20, 0}, {0, 0, 3600},
	} {
		c := cluster.Container{Name: "x", PartitionKey: []string{"/k"}, Partitions: 1, DefaultTTL: tc.first, MutableTTL: true}
		open := func() (*engine.Container, func(seconds int64, batches ...*engine.Batch)) {
			db, err := engine.Open(ctx, t.TempDir(), &engine.Options{MaxPartitionBytes: -1})
			must(t, err)
			t.Cleanup(func() { must(t, db.Close()) })
			at, err := db.EnsureContainer(ctx, c.Name, c.Def())
			must(t, err)
			index := uint64(0)
			return at, func(seconds int64, batches ...*engine.Batch) {
				t.Helper()
				index++
				applied, err := at.ApplyAt(ctx, at.Partitions()[0].ID, engine.Entry{
					Index: index, Time: now, Batches: batches, DefaultTTL: &engine.DefaultTTLChange{Revision: index, TTL: cluster.TTLOf(seconds)},
				})
				must(t, err)
				for _, r := range applied.Results {
					must(t, r.Err)
				}
			}
		}
		from, change := open()
		change(tc.written)
		batch := from.NewBatch(engine.StringKey("a"))
		for id, said := range map[string]time.Duration{
			"none": 0, "ever": engine.NoExpiry, "20s": 20 * time.Second, "hour": time.Hour, "moment": time.Millisecond,
		} {
			must(t, batch.Create([]byte(`{"id":"`+id+`","k":"a"}`), &engine.WriteOptions{TTL: said}))
			must(t, batch.Create([]byte(`{"id":"`+id+` but 20","k":"a","ttl":20}`), &engine.WriteOptions{TTL: said}))
		}
		change(tc.restored, batch)
		var file bytes.Buffer
		_, err := from.ExportPartition(ctx, from.Partitions()[0].ID, &file)
		must(t, err)

		c.DefaultTTL = tc.restored
		at, changeCopy := open()
		batch = at.NewBatch(engine.StringKey("a"))
		n := 0
		for it, err := range saved(ctx, &file, &c) {
			must(t, err)
			must(t, batch.Upsert(it.write.Body, &engine.WriteOptions{TTL: it.write.TTL}))
			if n++; it.key.String() != batch.Key().String() || !strings.Contains(string(it.write.Body), `"`+it.id+`"`) {
				t.Errorf("item %q of key %v: %s", it.id, it.key, it.write.Body)
			}
		}
		if n != 10 {
			t.Fatalf("%+v: %d items, want 10", tc, n)
		}
		changeCopy(tc.restored, batch)
		lives := func(c *engine.Container) map[string]time.Duration {
			found := make(map[string]time.Duration)
			for it, err := range c.ScanAll(ctx, nil) {
				must(t, err)
				if found[it.ID] = -1; !it.Expires.IsZero() {
					found[it.ID] = it.Expires.Sub(it.Modified)
				}
			}
			return found
		}
		for _, later := range []int64{tc.restored, 7200, -1, 20, 3600, 0} {
			change(later)
			changeCopy(later)
			if was, is := lives(from), lives(at); len(was) != 10 || !maps.Equal(was, is) {
				t.Errorf("%+v, then a default of %d: items that were restored live %v, those of the backup %v", tc, later, is, was)
			}
		}
	}
}

// TestLostResults: a write of which it is not known whether it was refused does not count as restored.
func TestLostResults(t *testing.T) {
	answers := []error{client.ErrResults, client.ErrResults, engine.ErrUniqueKey}
	if err := decided(func() error {
		err := answers[0]
		answers = answers[1:]
		return err
	}); !errors.Is(err, engine.ErrUniqueKey) || len(answers) > 0 {
		t.Errorf("%v, and %d answers are left", err, len(answers))
	}
}

// TestTimeToLive: an item of a container whose default is fixed has the time to live after a restore that its write has said.
func TestTimeToLive(t *testing.T) {
	const day = 24 * 3600 * 1000
	for name, tc := range map[string]struct {
		body     string
		standard int64 // milliseconds
		lives    int64 // 0: for ever
		want     time.Duration
	}{
		"nothing expires":               {`{"id":"i","ttl":5}`, 0, 0, 0},
		"as the container":              {`{"id":"i"}`, day, day, 0},
		"for ever, as the container":    {`{"id":"i"}`, -1, 0, 0},
		"as the document":               {`{"id":"i","ttl":5}`, day, 5000, 0},
		"for ever, as the document":     {`{"id":"i","ttl":-1}`, day, 0, 0},
		"the write said less":           {`{"id":"i"}`, day, 1500, 1500 * time.Millisecond},
		"the write said more":           {`{"id":"i","ttl":5}`, day, 6000, 6 * time.Second},
		"the write said a time":         {`{"id":"i"}`, -1, 1000, time.Second},
		"the write said for ever":       {`{"id":"i"}`, day, 0, engine.NoExpiry},
		"a ttl of a member of a member": {`{"id":"i","a":{"ttl":5}}`, day, day, 0},
	} {
		v := item.Version{Modified: 1_700_000_000_123, Body: []byte(tc.body)}
		if tc.lives > 0 {
			v.Expires = v.Modified + tc.lives
		}
		has := cluster.Container{DefaultTTL: cluster.SecondsOf(max(time.Duration(tc.standard)*time.Millisecond, engine.NoExpiry))}
		if got := timeToLive(&v, &transfer.Head{TTL: tc.standard}, &has); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	// A container without a default that is fixed refuses a write that says a time.
	own := item.Version{Modified: 1000, Expires: 6000}
	if got := timeToLive(&own, &transfer.Head{Mutable: true}, new(cluster.Container)); got != 0 {
		t.Errorf("where nothing expires: %v", got)
	}
}

// TestPromoteRenamed: a container that has taken the name of a dropped one of the description is in the next description, and the
// others keep their numbers. A node that has not heard of the drop stands in the way.
func TestPromoteRenamed(t *testing.T) {
	old := func(name string) cluster.Container {
		return cluster.Container{Name: name, PartitionKey: []string{"/k"}, Partitions: 1, Regions: []string{"us"}}
	}
	d := &cluster.Cluster{
		Nodes:      []cluster.Node{{ID: 1, Address: "a:1", Region: "eu"}},
		Joined:     []cluster.Node{{ID: 2, Address: "b:1", Region: "us"}, {ID: 3, Address: "c:1", Region: "us"}},
		Containers: []cluster.Container{old("orders"), old("items")},
	}
	made := cluster.Container{Name: "orders", PartitionKey: []string{"/other"}, Partitions: 1, Number: 70000, Nodes: []uint64{1}, Replicas: 1}
	group := func(id uint64, container string) host.GroupStatus {
		return host.GroupStatus{ID: id, Container: container, Max: "FF", Replica: 1<<20 | 2, Applied: 5, Replicas: []uint64{1}}
	}
	hear := func(third ...uint64) *promotion {
		p := newPromotion(d, "us")
		p.dropped = []uint64{1}
		for _, s := range []host.Status{
			{Node: 2, Containers: []cluster.Container{made}, Dropped: []uint64{1}, Groups: []host.GroupStatus{group(70000<<32|1, "orders"), group(2<<32|1, "items")}},
			{Node: 3, Dropped: third},
		} {
			must(t, p.hear(&nodeStatus{Node: s.Node, Status: &s}))
		}
		return p
	}
	next, err := hear(1).next()
	must(t, err)
	if got := next.Container("orders"); len(next.Containers) != 2 || got.Number != 70000 || got.PartitionKey[0] != "/other" || next.NumberOf("items") != 2 {
		t.Errorf("%+v", next.Containers)
	}
	if _, err = hear().next(); err == nil || !strings.Contains(err.Error(), "node 3 has not heard") {
		t.Error(err)
	}
}

// TestPromoteWithout: a container without readers in the region does not keep the others from being promoted, and is named. One that is
// to have readers there, of which none answers, does.
func TestPromoteWithout(t *testing.T) {
	for _, regions := range [][]string{nil, {"us"}} {
		d := &cluster.Cluster{
			Nodes:      []cluster.Node{{ID: 1, Address: "a:1", Region: "eu"}},
			Joined:     []cluster.Node{{ID: 2, Address: "b:1", Region: "us"}},
			Containers: []cluster.Container{{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 1, Regions: []string{"us"}}},
		}
		p := newPromotion(d, "us")
		must(t, p.hear(&nodeStatus{Node: 2, Status: &host.Status{
			Node:       2,
			Containers: []cluster.Container{{Name: "made", PartitionKey: []string{"/k"}, Partitions: 1, Number: 70000, Nodes: []uint64{1}, Replicas: 1, Regions: regions}},
			Groups:     []host.GroupStatus{{ID: 1<<32 | 1, Container: "orders", Max: "FF", Replica: 1<<20 | 2, Applied: 5, Replicas: []uint64{1}}},
		}}))
		next, err := p.next()
		if regions != nil {
			if err == nil || !strings.Contains(err.Error(), `container "made": no group`) {
				t.Error(err)
			}
			continue
		}
		must(t, err)
		var out strings.Builder
		p.show(&out)
		if next.NumberOf("made") != 70000 || !strings.Contains(out.String(), `no readers of the containers ["made"]`) {
			t.Errorf("%+v: %s", next.Containers, out.String())
		}
	}
}

// TestInterrupted: a command that is interrupted says what it has begun.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := (&operator{}).awaitDrop(ctx, &environment{}, meta.Dropped{Number: 1, Name: "orders"})
	var rest *unfinished
	if !errors.As(err, &rest) || !strings.Contains(err.Error(), "is dropped") {
		t.Error(err)
	}
}
