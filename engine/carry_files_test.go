package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCarryOverManyFiles carries a memtable that takes several log files. Each file
// that is made takes some of it; a carry that began anew with each would not end.
func TestCarryOverManyFiles(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	o := testOptions(faulty)
	o.memtableBytes = 1 << 20
	db, err := Open(ctx, "carried", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { db.Close() }()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	docs := make(map[string]string)
	for i := range 12 {
		id := fmt.Sprint(i)
		docs[id] = fmt.Sprintf(`{"id":%q,"k":"k","v":%q}`, id, strings.Repeat("v", 18<<10))
		if _, err := c.Upsert(ctx, []byte(docs[id]), nil); err != nil {
			t.Fatal(err)
		}
	}
	calls, rotations := 0, db.log.Stats().Rotations
	faulty.SetHook(func(vfs.Call) error {
		if calls++; calls > 300 {
			return errors.New("there are more calls than the memtable takes")
		}
		return nil
	})
	if err := db.retention.Carry(&db.partitions()[0].Partition); err != nil {
		t.Fatal(err)
	}
	faulty.SetHook(nil)
	if n := db.log.Stats().Rotations - rotations; n < 2 {
		t.Errorf("%d log files were filled", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o.fs = mem
	if db, err = Open(ctx, "carried", o); err != nil {
		t.Fatal(err)
	}
	if c, err = db.Container("c"); err != nil {
		t.Fatal(err)
	}
	for id, want := range docs {
		if item, err := c.Read(ctx, StringKey("k"), id); err != nil || string(item.Body) != want {
			t.Errorf("%s: %d bytes, %v", id, len(item.Body), err)
		}
	}
}
