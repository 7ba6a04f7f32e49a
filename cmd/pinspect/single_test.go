package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestSingle: of a store with one document the texts speak of one, not of several.
func TestSingle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(t.Context(), dir, nil)
	check(t, err)
	c, err := db.CreateContainer(t.Context(), "c", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	_, err = c.Upsert(t.Context(), []byte(`{"id":"a","k":1}`), nil)
	check(t, err)
	check(t, db.Close())
	if got := clean(t, "info", dir); !strings.Contains(got, "1 in 1 logical partition, ") {
		t.Errorf("info: %s", got)
	}
	if got := clean(t, "map", dir); !strings.Contains(got, "1 document lies whose") {
		t.Errorf("map: %s", got)
	}
}
