package engine

import (
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// TestMostPartitions takes the definition, the store manifest and the routing table
// of a container with as many physical partitions as one can have.
func TestMostPartitions(t *testing.T) {
	def := ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: maxPartitions}
	in := def.inner()
	must(t, in.Check("c"))
	def.MinPartitions++
	if more := def.inner(); more.Check("c") == nil {
		t.Error("one more")
	}
	s := manifest.Store{Head: manifest.Head{NextContainer: 2, NextPartition: maxPartitions + 1}}
	s.Containers = []manifest.Container{in.Manifest(1, "c")}
	ranges := partmap.Ranges(maxPartitions)
	for i, r := range ranges {
		s.Partitions = append(s.Partitions, manifest.Partition{
			ID: uint32(i) + 1, Container: 1, Min: slices.Clone(r.Min.Bytes()), Max: slices.Clone(r.Max.Bytes()),
		})
	}
	data, err := manifest.Encode(manifest.StoreKind, 1, &s)
	must(t, err)
	if len(data) > manifest.MaxBytes {
		t.Errorf("a manifest of %d bytes", len(data))
	}
	var read manifest.Store
	must(t, manifest.Decode("store", manifest.StoreKind, data, &read))
	var entries []partmap.Entry
	for _, p := range read.Partitions {
		lo, err := partmap.EPKFromBytes(p.Min)
		must(t, err)
		hi, err := partmap.EPKFromBytes(p.Max)
		must(t, err)
		entries = append(entries, partmap.Entry{ID: PartitionID(p.ID), Range: partmap.Range{Min: lo, Max: hi}})
	}
	table, err := partmap.NewTable(entries)
	must(t, err)
	for i := range ranges {
		if got := table.Find(&ranges[i].Min); got != i || table.Entry(i).ID != PartitionID(i+1) {
			t.Fatalf("the lower boundary of partition %d lies in %d", i, got)
		}
	}
}
