package main

import (
	"path/filepath"
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
	wants(t, text, "settings of set: 4,000 RU/s; items expire after 1h0m0s; unique /mail")
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
