package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// TestInfoOfChanges shows what a container keeps for its change feed.
func TestInfoOfChanges(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db, err := engine.Open(ctx, dir, nil)
	check(t, err)
	_, err = db.CreateContainer(ctx, "plain", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	c, err := db.CreateContainer(ctx, "kept", engine.ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: 90 * time.Minute})
	check(t, err)
	for i := range 10 {
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"1","k":"a","n":%d}`, i), &engine.WriteOptions{Durability: engine.Buffered})
		check(t, err)
	}
	check(t, db.Compact(ctx))
	check(t, db.Close())
	text := clean(t, "info", dir)
	if want := "changes of kept: kept for 1h30m0s: everything that was written; about 9 older versions in files, 216 B"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
	if strings.Contains(text, "changes of plain") {
		t.Error(text)
	}
	for _, one := range objects(t, clean(t, "info", dir, "--json"))[0]["containers"].([]any) {
		of := one.(map[string]any)
		changes, _ := of["changes"].(map[string]any)
		if of["name"] == "kept" && (changes["older_versions"] != 9.0 || changes["retention"] != "1h30m0s") || of["name"] == "plain" && changes != nil {
			t.Errorf("%v", of)
		}
	}
}
