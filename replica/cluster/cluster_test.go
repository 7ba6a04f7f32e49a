package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

const three = `{"nodes":[{"id":1,"address":"a:1"},{"id":2,"address":"b:1"},{"id":3,"address":"c:1"},{"id":9,"address":"d:1"}],
	"containers":[{"name":"orders","partition_key":["/tenant"],"partitions":8},{"name":"small","partition_key":["/k"],"partitions":1}]}`

// TestGroups: the groups of a container tile the key space, each with three nodes, and each
// node is preferred by as many as any other.
func TestGroups(t *testing.T) {
	c, err := Decode([]byte(three))
	if err != nil {
		t.Fatal(err)
	}
	groups := c.Groups()
	if len(groups) != 9 {
		t.Fatalf("%d groups", len(groups))
	}
	ids, first := make(map[uint64]bool), make(map[uint64]int)
	at := partmap.MinEPK()
	for _, g := range groups[:8] {
		if g.Range.Min.Compare(&at) != 0 || g.Range.Empty() || len(g.Replicas) != 3 {
			t.Errorf("%+v after %v", g, at)
		}
		at = g.Range.Max
		ids[g.ID] = true
		first[g.Replicas[0]]++
	}
	if end := partmap.MaxEPK(); at.Compare(&end) != 0 || groups[8].Range.Max.Compare(&end) != 0 {
		t.Errorf("the end is %v", at)
	}
	if len(ids) != 8 || ids[groups[8].ID] || len(first) != 4 || first[9] != 2 {
		t.Errorf("ids %v, preferred %v", ids, first)
	}
	if n := c.Node(9); n == nil || n.Address != "d:1" || c.Node(4) != nil {
		t.Errorf("%+v", n)
	}
}

// TestRefused: what is wrong with a description is said.
func TestRefused(t *testing.T) {
	for holds, text := range map[string]string{
		"0 nodes":                   `{}`,
		"unknown field":             `{"node":[]}`,
		"ids are from 1":            `{"nodes":[{"address":"a:1"}]}`,
		"not host:port":             `{"nodes":[{"id":1,"address":"a"}]}`,
		"ports are from 1":          `{"nodes":[{"id":1,"address":"a:0"}]}`,
		"ports are from 1 to 65535": `{"nodes":[{"id":1,"address":"a:65536"}]}`,
		"follows its end":           three + `{}`,
		"has a slash":               strings.Replace(three, `{"nodes"`, `{"metadata":{"name":"a/b","endpoints":["http://e:1"]},"nodes"`, 1),
		"that of node 2 too":        strings.Replace(three, `{"nodes"`, `{"metadata":{"name":"a","members":[{"node":1,"peer":"b:1","client":"a:3"}]},"nodes"`, 1),
		"etcd within node 1 too":    strings.Replace(three, `{"nodes"`, `{"metadata":{"name":"a","members":[{"node":1,"peer":"a:3","client":"a:3"}]},"nodes"`, 1),
		"addresses differ":          `{"nodes":[{"id":1,"address":"a:1"},{"id":2,"address":"a:1"}]}`,
		"4 replicas on 1":           `{"nodes":[{"id":1,"address":"a:1"}],"replicas":4}`,
		"two containers":            strings.Replace(three, "small", "orders", 1),
		"begins with a promo":       strings.Replace(three, `{"nodes"`, `{"incarnation":1,"nodes"`, 1),
		"the first one is 0":        strings.Replace(three, `{"nodes"`, `{"promotion":{"region":"us"},"nodes"`, 1),
		"not marked as gone":        strings.Replace(three, `{"nodes"`, `{"incarnation":1,"promotion":{"region":"us","lost":[2]},"nodes"`, 1),
		"group 7 with replic":       strings.Replace(three, `{"nodes"`, `{"incarnation":1,"promotion":{"region":"us","groups":[{"id":7,"replica":9}]},"nodes"`, 1),
		"default_ttl -2":            strings.Replace(three, `"partitions":8`, `"partitions":8,"default_ttl":-2`, 1),
		`container "orders": index`: strings.Replace(three, `"partitions":8`, `"partitions":8,"index":{"include":["n"]}`, 1),
		"1 to 10000 partitio":       strings.Replace(three, `"partitions":8`, `"partitions":0`, 1),
	} {
		if _, err := Decode([]byte(text)); !errors.Is(err, ErrDescription) || !strings.Contains(err.Error(), holds) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestManyPatterns: an index policy with more patterns than one that is set may have is good in a description that has it.
func TestManyPatterns(t *testing.T) {
	c := Container{Name: "c", PartitionKey: []string{"/k"}, Partitions: 1}
	for i := range 10_001 {
		c.Index.Include = append(c.Index.Include, fmt.Sprintf("/m%d/?", i))
	}
	if err := CheckIndex(c.Index); err == nil {
		t.Error("10,001 patterns can be set")
	}
	if err := c.checkDefinition(); err != nil {
		t.Error(err)
	}
}

// TestDefinition: a description without an index policy and a default time to live has containers without; with them the store of each node
// gets them. The newest of two definitions counts.
func TestDefinition(t *testing.T) {
	c, err := Decode([]byte(strings.Replace(three, `"partitions":1`, `"partitions":1,"index":{"include":["/*"],"composite":[[{"path":"/a"},{"path":"/b","descending":true}]]},"default_ttl":-1`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	plain, small := c.Container("orders").Def(), c.Container("small").Def()
	if plain.DefaultTTL != 0 || len(plain.Index.Include) != 0 || !plain.Replicated {
		t.Errorf("%+v", plain)
	}
	if small.DefaultTTL != engine.NoExpiry || len(small.Index.Include) != 1 || len(small.Index.Composite) != 1 {
		t.Errorf("%+v", small)
	}
	if b, err := json.Marshal(c.Container("orders")); err != nil || string(b) != `{"name":"orders","partition_key":["/tenant"],"partitions":8}` {
		t.Errorf("%s, %v", b, err)
	}
	for seconds, want := range map[int64]time.Duration{0: 0, NoExpiry: engine.NoExpiry, 90: 90 * time.Second} {
		if got := (&Container{DefaultTTL: seconds}).Def().DefaultTTL; got != want || SecondsOf(got) != seconds {
			t.Errorf("%d: %v", seconds, got)
		}
	}
	changed := *c.Container("small")
	changed.Number, changed.Revision, changed.Index, changed.DefaultTTL = 2, 3, engine.IndexPolicy{Include: []string{"/n/?"}}, 5
	next, err := c.Newest(changed)
	if err != nil {
		t.Fatal(err)
	}
	if got := next.Container("small"); got.Revision != 3 || got.Index.Include[0] != "/n/?" || got.DefaultTTL != NoExpiry || c.Container("small").Revision != 0 {
		t.Errorf("%+v", got)
	}
	if later := next.Later(); len(later) != 1 || later[0].Number != 2 || later[0].Name != "small" || len(c.Later()) != 0 {
		t.Errorf("%+v", later)
	}
	lives := *c.Container("small")
	lives.Number, lives.MutableTTL = 2, true
	mutable := *c
	mutable.Containers = slices.Clone(c.Containers)
	for i := range mutable.Containers {
		mutable.Containers[i].MutableTTL = mutable.Containers[i].Name == "small"
	}
	for i, seconds := range []int64{7, 0, 9} {
		if did, err := lives.Retime(seconds); err != nil || !did {
			t.Fatal(seconds, did, err)
		}
		if did, err := lives.Retime(seconds); err != nil || did {
			t.Error("the same again: ", did, err)
		}
		later, err := mutable.Newest(lives)
		if err != nil {
			t.Fatal(err)
		}
		got := later.Container("small")
		if got.DefaultTTL != seconds || got.TTLRevision != uint64(i+1) || got.Revision != uint64(i+1) || got.Def().DefaultTTL != engine.NoExpiry || !got.Fixed(mutable.Container("small")) {
			t.Errorf("a default of %d: %+v", seconds, got)
		}
	}
	keys := [][]string{{"/a/b", "/c"}, {"/d"}}
	first := Container{Name: "x", PartitionKey: []string{"/a/b", "/c"}, UniqueKeys: keys}
	for want, other := range map[bool]Container{
		true:  {PartitionKey: []string{`/"a"/b`, `/c`}, UniqueKeys: [][]string{{`/a/"b"`, "/c"}, {`/"d"`}}},
		false: {PartitionKey: []string{`/"a/b"`, `/c`}, UniqueKeys: keys},
	} {
		if first.Fixed(&other) != want || other.Fixed(&first) != want {
			t.Errorf("%+v as %+v: %v, want %v", other, first, !want, want)
		}
	}
	if _, err := lives.Retime(-2); !errors.Is(err, engine.ErrInvalid) {
		t.Error("a default of -2: ", err)
	}
	changed.Revision = 2
	if same, err := next.Newest(changed); err != nil || same != next {
		t.Errorf("an older one: %v", err)
	}
	changed.Number = 7
	if _, err = next.Newest(changed); !errors.Is(err, ErrDescription) {
		t.Errorf("another container of the name: %v", err)
	}
	if !SameIndex(engine.IndexPolicy{}, engine.IndexPolicy{Exclude: []string{"/n/?"}}) || SameIndex(engine.IndexAll(), engine.IndexPolicy{}) || !SameIndex(engine.IndexAll(), engine.IndexAll()) {
		t.Error("which policies are the same")
	}
}
