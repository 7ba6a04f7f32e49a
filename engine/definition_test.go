package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestEnsureContainerDiffers asks for a container that is there with another value
// in each part of its definition: the error names it. What is zero asks for nothing.
func TestEnsureContainerDiffers(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, "mem", testOptions(vfs.NewMem()))
	must(t, err)
	defer db.Close()
	made := ContainerDef{
		PartitionKey: []string{"/k"}, Compression: SmallCompression, MinPartitions: 2, DefaultTTL: time.Hour, Throughput: 500,
		ChangeRetention: time.Minute, Index: IndexPolicy{Include: []string{"/a/?", "/b/?"}},
		UniqueKeys: [][]string{{"/u"}}, Limits: ContainerLimits{ItemBytes: 1000, BatchOperations: 7},
	}
	c, err := db.CreateContainer(ctx, "c", made)
	must(t, err)
	change := func(f func(*ContainerDef)) ContainerDef {
		def := made
		f(&def)
		return def
	}
	for _, tc := range []struct {
		field, have, asked, change string
		def                        ContainerDef
	}{
		{"Kind", "json", "opaque", "another container", change(func(d *ContainerDef) { *d = ContainerDef{PartitionKey: []string{"/k"}, Kind: Opaque} })},
		{"PartitionKey", "/k", "/k,/l", "CopyTo", change(func(d *ContainerDef) { d.PartitionKey = []string{"/k", "/l"} })},
		{"Synthetic", "/k", "/k|/l", "CopyTo", change(func(d *ContainerDef) { d.PartitionKey, d.Synthetic = nil, &SyntheticKey{Join: []string{"/k", "/l"}} })},
		{"UniqueKeys", "[[/u]]", "[[/v]]", "another container", change(func(d *ContainerDef) { d.UniqueKeys = [][]string{{"/v"}} })},
		{"UniqueKeys", "[[/u]]", "[]", "another container", change(func(d *ContainerDef) { d.UniqueKeys = nil })},
		{"Index", "/a/?,/b/?", "/* without /c/*", "SetIndexPolicy", change(func(d *ContainerDef) { d.Index = IndexPolicy{Include: []string{"/*"}, Exclude: []string{"/c/*"}} })},
		{"Compression", "small", "none", "CopyTo", change(func(d *ContainerDef) { d.Compression = NoCompression })},
		{"DefaultTTL", "1h0m0s", "1m0s", "CopyTo", change(func(d *ContainerDef) { d.DefaultTTL = time.Minute })},
		{"DefaultTTL", "1h0m0s", "NoExpiry", "CopyTo", change(func(d *ContainerDef) { d.DefaultTTL = NoExpiry })},
		{"MutableTTL", "false", "true", "CopyTo", change(func(d *ContainerDef) { d.MutableTTL = true })},
		{"Throughput", "500", "600", "SetThroughput", change(func(d *ContainerDef) { d.Throughput = 600 })},
		{"NoBurst", "false", "true", "CopyTo", change(func(d *ContainerDef) { d.NoBurst = true })},
		{"Replicated", "false", "true", "another container", change(func(d *ContainerDef) { d.Replicated, d.ChangeRetention, d.DefaultTTL = true, 0, 0 })},
		{"ChangeRetention", "1m0s", "2m0s", "CopyTo", change(func(d *ContainerDef) { d.ChangeRetention = 2 * time.Minute })},
		{"Limits.ItemBytes", "1000", "2000", "CopyTo", change(func(d *ContainerDef) { d.Limits.ItemBytes = 2000 })},
		{"Limits.LogicalPartitionBytes", "21474836480", "5", "SetDefaultKeyLimits", change(func(d *ContainerDef) { d.Limits.LogicalPartitionBytes = 5 })},
		{"Limits.BatchOperations", "7", "8", "CopyTo", change(func(d *ContainerDef) { d.Limits.BatchOperations = 8 })},
		{"Limits.BatchBytes", "2097152", "9", "CopyTo", change(func(d *ContainerDef) { d.Limits.BatchBytes = 9 })},
		{"Limits.PartitionThroughput", "10000", "900", "CopyTo", change(func(d *ContainerDef) { d.Limits.PartitionThroughput = 900 })},
	} {
		_, err := db.EnsureContainer(ctx, "c", tc.def)
		var wrong *DefinitionError
		if !errors.As(err, &wrong) || !errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", tc.field, err)
			continue
		}
		if wrong.Container != "c" || wrong.Field != tc.field || wrong.Have != tc.have || wrong.Asked != tc.asked || !strings.Contains(wrong.Change, tc.change) {
			t.Errorf("%+v: %v, want %+v", wrong, err, tc)
		}
	}
	same := func(what string, def ContainerDef) {
		t.Helper()
		if got, err := db.EnsureContainer(ctx, "c", def); err != nil || got != c {
			t.Errorf("%s: %v", what, err)
		}
	}
	same("what it is", made)
	same("its key only", ContainerDef{PartitionKey: []string{"/k"}, UniqueKeys: made.UniqueKeys})
	same("more partitions to begin with", change(func(d *ContainerDef) { d.MinPartitions = 9 }))
	same("the same index in another order", change(func(d *ContainerDef) { d.Index.Include = []string{"/b/?", "/a/?"} }))
	must(t, c.SetThroughput(ctx, 600))
	job, err := c.SetIndexPolicy(ctx, IndexAll())
	must(t, err)
	must(t, job.Wait(ctx))
	same("what was changed", change(func(d *ContainerDef) { d.Throughput, d.Index = 600, IndexAll() }))
	if _, err := db.EnsureContainer(ctx, "c", made); !errors.Is(err, ErrExists) {
		t.Errorf("what it was before the change: %v", err)
	}
}

// TestDefIsACopy: what a caller makes of the definition that it was given, for a CopyTo for instance, changes no container.
func TestDefIsACopy(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()))
	must(t, second(c.Upsert(t.Context(), []byte(`{"id":"1","k":"a","other":"b"}`), nil)))
	def := c.Def()
	def.PartitionKey[0] = "/other"
	if n, err := c.Count(t.Context(), AllPartitions(), Eq("/other", "b")); n != 1 || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
	if now := c.Def().PartitionKey[0]; now != "/k" {
		t.Errorf("the key is %s", now)
	}
}
