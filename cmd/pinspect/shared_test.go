package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestSharedFiles verifies a store in which partitions share files, sound and
// with a damaged one.
func TestSharedFiles(t *testing.T) {
	s := newSample(t)
	ctx := t.Context()
	// No trim ends before the store is closed.
	db, err := engine.Open(ctx, s.dir, &engine.Options{TrimBytesPerSecond: 1})
	check(t, err)
	cities, err := db.Container("cities")
	check(t, err)
	var fullest engine.PartitionStats
	for _, p := range cities.Partitions() {
		if p.RawBytes > fullest.RawBytes {
			fullest = p
		}
	}
	job, err := cities.Split(ctx, fullest.ID, nil)
	check(t, err)
	check(t, job.Wait(ctx))
	check(t, db.Close())

	names := storeFiles(t, s.dir, "p/*/*.seg")
	inodes := make(map[string][]string) // names by number
	for _, name := range names {
		inodes[filepath.Base(name)] = append(inodes[filepath.Base(name)], name)
	}
	shared := ""
	for number, list := range inodes {
		if len(list) > 1 {
			shared = number
		}
	}
	if shared == "" {
		t.Fatalf("no file is shared: %v", names)
	}
	sum := ofType(objects(t, clean(t, "verify", s.dir, "--json")), "summary")
	if len(sum) != 1 || int(sum[0]["segments"].(float64)) != len(inodes) {
		t.Errorf("%v; there are %d files under %d names", sum, len(inodes), len(names))
	}
	var bytes int64
	for _, list := range inodes {
		info, err := os.Stat(filepath.Join(s.dir, list[0]))
		check(t, err)
		bytes += info.Size()
	}
	info := objects(t, clean(t, "info", s.dir, "--json"))
	if disk, ok := info[0]["disk_bytes"].(map[string]any); !ok || int64(disk["segments"].(float64)) != bytes {
		t.Errorf("%v, the files have %d bytes", info[0], bytes)
	}

	patch(t, filepath.Join(s.dir, inodes[shared][0]), 200, func(b byte) byte { return b ^ 0x40 })
	r := pinspect(t, "verify", s.dir)
	for _, name := range inodes[shared] {
		if !strings.Contains(r.stdout, name) {
			t.Errorf("%s is damaged, which verify does not say:\n%s", name, r.stdout)
		}
	}
}
