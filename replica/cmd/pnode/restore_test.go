package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/jsondoc"
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

// TestChangedDefault: an item of a group whose default time to live has changed goes by that of its container after a restore.
func TestChangedDefault(t *testing.T) {
	ctx := t.Context()
	open := func() *engine.DB {
		db, err := engine.Open(ctx, t.TempDir(), &engine.Options{MaxPartitionBytes: -1})
		must(t, err)
		t.Cleanup(func() { must(t, db.Close()) })
		return db
	}
	c := cluster.Container{Name: "x", PartitionKey: []string{"/k"}, Partitions: 1, DefaultTTL: 20, MutableTTL: true}
	from, err := open().EnsureContainer(ctx, c.Name, c.Def())
	must(t, err)
	_, err = c.Retime(3600)
	must(t, err)
	batch := from.NewBatch(engine.StringKey("a"))
	must(t, batch.Create([]byte(`{"id":"i","k":"a"}`), nil))
	part, now := from.Partitions()[0].ID, time.Now()
	_, err = from.ApplyAt(ctx, part, engine.Entry{Index: 1, Time: now, DefaultTTL: &engine.DefaultTTLChange{Revision: c.TTLRevision, TTL: time.Hour}})
	must(t, err)
	_, err = from.ApplyAt(ctx, part, engine.Entry{Index: 2, Time: now, Batches: []*engine.Batch{batch}})
	must(t, err)
	var file bytes.Buffer
	_, err = from.ExportPartition(ctx, part, &file)
	must(t, err)

	at, ttl, err := install(ctx, open(), &backup{Containers: []cluster.Container{c}}, &backupGroup{Container: c.Name, Max: "FF"}, &file)
	must(t, err)
	it, err := at.Read(ctx, engine.StringKey("a"), "i")
	must(t, err)
	if ttl != time.Hour || lifetime(&it, ttl) != 0 || !it.Expires.Equal(it.Modified.Add(time.Hour)) {
		t.Errorf("default %v, written with %v, expires %v after it was written; want an hour, nothing, and an hour", ttl, lifetime(&it, ttl), it.Expires.Sub(it.Modified))
	}
}

// TestLifetime: an item that was written with a time to live of its own has it after a restore.
func TestLifetime(t *testing.T) {
	const day = 24 * time.Hour
	at := time.UnixMilli(1_700_000_000_123)
	for name, tc := range map[string]struct {
		body     string
		standard time.Duration
		lives    time.Duration // 0: for ever
		want     time.Duration
	}{
		"nothing expires":               {`{"id":"i","ttl":5}`, 0, 0, 0},
		"as the container":              {`{"id":"i"}`, day, day, 0},
		"for ever, as the container":    {`{"id":"i"}`, engine.NoExpiry, 0, 0},
		"as the document":               {`{"id":"i","ttl":5}`, day, 5 * time.Second, 0},
		"for ever, as the document":     {`{"id":"i","ttl":-1}`, day, 0, 0},
		"the write said less":           {`{"id":"i"}`, day, 1500 * time.Millisecond, 1500 * time.Millisecond},
		"the write said more":           {`{"id":"i","ttl":5}`, day, 6 * time.Second, 6 * time.Second},
		"the write said a time":         {`{"id":"i"}`, engine.NoExpiry, time.Second, time.Second},
		"the write said for ever":       {`{"id":"i"}`, day, 0, engine.NoExpiry},
		"a ttl of a member of a member": {`{"id":"i","a":{"ttl":5}}`, day, day, 0},
	} {
		it := engine.Item{Body: []byte(tc.body)}
		if it.Modified = at; tc.lives > 0 {
			it.Expires = at.Add(tc.lives)
		}
		if got := lifetime(&it, tc.standard); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
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
