package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// TestSettings shows what a container was made with.
func TestSettings(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(ctx, dir, nil)
	check(t, err)
	_, err = db.CreateContainer(ctx, "plain", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	c, err := db.CreateContainer(ctx, "set", engine.ContainerDef{
		PartitionKey: []string{"/k"}, Throughput: 4000, DefaultTTL: time.Hour, UniqueKeys: [][]string{{"/mail"}}, Limits: engine.ContainerLimits{ItemBytes: 3 << 20},
	})
	check(t, err)
	_, err = c.Upsert(ctx, []byte(`{"id":"1","k":"x","mail":"a"}`), nil)
	check(t, err)
	if text := db.Stats().String(); !strings.Contains(text, "throttled") || !strings.Contains(text, "4000") {
		t.Errorf("%s", text)
	}
	check(t, db.Close())
	text := clean(t, "info", dir)
	wants(t, text, "settings of set: 4,000 RU/s; items expire after 1h0m0s; unique /mail; documents of at most 3.00 MiB\n")
	if strings.Contains(text, "settings of plain") {
		t.Errorf("%s", text)
	}
	wants(t, clean(t, "partitions", dir), "4,000 RU/s provisioned, 4,000 for each physical partition")
	v := objects(t, clean(t, "info", dir, "--json"))[0]
	set := v["containers"].([]any)[1].(map[string]any)
	if v["type"] != "store" || set["throughput_ru_per_s"] != 4000.0 || set["default_ttl_s"] != 3600.0 || set["item_limit_bytes"] != float64(3<<20) {
		t.Errorf("%v", v)
	}
	p := ofType(objects(t, clean(t, "partitions", dir, "--container", "set", "--json")), "partition")
	if len(p) != 1 || p[0]["throughput_ru_per_s"] != 4000.0 {
		t.Errorf("%v", p)
	}
}

// TestPartitionRates: partitions are shown with the parts of the throughput that they have.
func TestPartitionRates(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(ctx, dir, nil)
	check(t, err)
	c, err := db.CreateContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}, Throughput: 4000, MinPartitions: 4})
	check(t, err)
	_, err = db.CreateContainer(ctx, "unlimited", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	show := func(want string, rates ...float64) {
		t.Helper()
		text := clean(t, "partitions", dir)
		wants(t, text, want)
		if strings.Count(text, "RU/s") != 1 {
			t.Errorf("%s", text)
		}
		var got []float64
		for _, row := range ofType(objects(t, clean(t, "partitions", dir, "--container", "c", "--json")), "partition") {
			got = append(got, row["throughput_ru_per_s"].(float64))
		}
		if !slices.Equal(got, rates) {
			t.Errorf("%v, want %v", got, rates)
		}
	}
	show("4,000 RU/s provisioned, 1,000 for each physical partition", 1000, 1000, 1000, 1000)
	var ids []engine.PartitionID
	for _, p := range db.Stats().Containers[0].Partitions {
		ids = append(ids, p.ID)
	}
	check(t, c.Redistribute(ctx, map[engine.PartitionID]float64{ids[0]: 2500}, ids[1:]...))
	show("4,000 RU/s provisioned, 500 to 2,500 for a physical partition", 2500, 500, 500, 500)
	check(t, c.SetThroughput(ctx, 2000))
	show("2,000 RU/s provisioned, 250 to 1,250 for a physical partition", 1250, 250, 250, 250)
	check(t, db.Close())
}
