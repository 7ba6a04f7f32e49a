package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestSharedKeyCounts: a partition is cut at the place of one of its keys, and
// the halves, which share a file, are joined. What top lists and what info counts are
// the same then.
func TestSharedKeyCounts(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	// No trim ends before the store is closed.
	db, err := engine.Open(ctx, dir, &engine.Options{TrimBytesPerSecond: 1})
	check(t, err)
	c, err := db.CreateContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	var places []string
	for i := range 500 {
		m, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"k%d"}`, i, i%50), nil)
		check(t, err)
		epk := m.Key.EPK()
		places = append(places, epk.String())
	}
	check(t, db.Compact(ctx))
	slices.Sort(places)
	places = slices.Compact(places)
	job, err := c.Split(ctx, c.Partitions()[0].ID, &engine.SplitOptions{At: places[41]})
	check(t, err)
	check(t, job.Wait(ctx))
	halves := c.Partitions()
	job, err = c.Merge(ctx, halves[0].ID, halves[1].ID)
	check(t, err)
	check(t, job.Wait(ctx))
	check(t, db.Close())

	info := objects(t, clean(t, "info", dir, "--json"))[0]
	listed := ofType(objects(t, clean(t, "top", dir, "--json", "--top", "100")), "logical_partition")
	versions := 0
	for _, l := range listed {
		versions += int(l["documents"].(float64))
	}
	if len(listed) != 50 || versions != 500 || int(info["logical_partitions"].(float64)) != 50 || int(info["documents"].(float64)) != 500 {
		t.Errorf("top lists %d logical partitions with %d documents, info counts %v and %v", len(listed), versions, info["logical_partitions"], info["documents"])
	}
}
