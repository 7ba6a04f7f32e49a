package meta

import (
	"errors"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
)

// TestSetIndexPolicy: each change of an index policy is a revision, of containers that were made while the cluster ran and of those of
// the description. The same policy again is none, and a container that was dropped has no more. A record of before has no index.
func TestSetIndexPolicy(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	old := cluster.Container{Name: "old", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber + 1000}
	if _, err := s.client.Put(ctx, s.key("containers", old.Number), `{"name":"old","partition_key":["/k"],"partitions":1,"number":66536}`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Put(ctx, s.nameKey("old"), "66536"); err != nil {
		t.Fatal(err)
	}
	made := must[cluster.Container](t)(s.CreateContainer(ctx, cluster.Container{Name: "made", PartitionKey: []string{"/k"}, Partitions: 1, Index: engine.IndexAll(), DefaultTTL: 60}))
	described := &cluster.Container{Name: "described", PartitionKey: []string{"/k"}, Partitions: 2, Number: 1}
	n := engine.IndexPolicy{Include: []string{"/n/?"}}
	for _, tc := range []struct {
		name     string
		index    engine.IndexPolicy
		revision uint64
	}{
		{"made", engine.IndexPolicy{Include: []string{"/*"}}, 0}, {"made", n, 1}, {"made", n, 1}, {"made", engine.IndexPolicy{}, 2},
		{"old", engine.IndexPolicy{}, 0}, {"old", n, 1},
		{"described", n, 1}, {"described", engine.IndexPolicy{}, 2},
	} {
		var d *cluster.Container
		if tc.name == described.Name {
			d = described
		}
		got := must[cluster.Container](t)(s.SetIndexPolicy(ctx, tc.name, d, tc.index))
		if got.Revision != tc.revision || got.Name != tc.name || !slices.Equal(got.Index.Include, tc.index.Include) || got.Partitions == 0 {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
	seen := make(map[string]cluster.Container)
	for _, o := range must[Picture](t)(s.Picture(ctx)).Containers {
		seen[o.Name] = o
	}
	if len(seen) != 3 || seen["made"].DefaultTTL != 60 || seen["made"].Number != made.Number || seen["described"].Number != 1 || seen["old"].Revision != 1 {
		t.Errorf("%+v", seen)
	}
	must[Dropped](t)(s.DropContainer(ctx, "made", 0, 0))
	must[Dropped](t)(s.DropContainer(ctx, "described", 0, 1))
	for name, d := range map[string]*cluster.Container{"made": nil, "none": nil, "described": described} {
		if _, err := s.SetIndexPolicy(ctx, name, d, n); !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
