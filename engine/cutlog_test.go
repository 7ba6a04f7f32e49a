package engine

import (
	"context"
	"errors"
	"path"
	"testing"

	"github.com/cleavestore/cleave/wal"
)

// TestCutLog: a store whose live log was cut short refuses to open, with file and offset,
// and nothing in it changes.
func TestCutLog(t *testing.T) {
	store := killedStore(t, 400)
	name := path.Join("wal", wal.FileName(1))
	sound, err := store.ReadFile(name)
	must(t, err)
	for n := int64(64); n < int64(len(sound)); n += int64(len(sound)-64) / 12 {
		image := store.Kill()
		must(t, image.WriteFile(name, sound[:n]))
		for _, readOnly := range []bool{false, true} {
			opts := testOptions(image)
			opts.ReadOnly = readOnly
			db, err := Open(context.Background(), "mem", opts)
			if err == nil {
				db.Close()
			}
			var corruption *CorruptionError
			if !errors.As(err, &corruption) || corruption.File != path.Join("mem", name) || corruption.Offset != n {
				t.Errorf("cut at %d, read-only %v: %v", n, readOnly, err)
			}
		}
		must(t, image.WriteFile(name, sound))
		db, err := Open(context.Background(), "mem", testOptions(image))
		must(t, err)
		c, err := db.Container("c")
		must(t, err)
		if n, err := c.Count(context.Background(), AllPartitions(), Filter{}); err != nil || n != 400 {
			t.Errorf("%d items, %v", n, err)
		}
		must(t, db.Close())
	}
}

// TestDroppedIsTold: what an open drops behind a torn end of the log is in Stats and in an
// event.
func TestDroppedIsTold(t *testing.T) {
	image := killedStore(t, 100)
	name := path.Join("wal", wal.FileName(1))
	data, err := image.ReadFile(name)
	must(t, err)
	var last *wal.Record
	_, err = wal.ReadFile(image, "wal", 1, -1, func(r *wal.Record) error {
		last = &wal.Record{Offset: r.Offset, Payload: append([]byte(nil), r.Payload...)}
		return nil
	})
	must(t, err)
	data[last.Offset+32]++
	must(t, image.WriteFile(name, data))
	want := wal.Dropped{Bytes: int64(32+len(last.Payload)+15) &^ 15, Records: 1}
	for _, readOnly := range []bool{true, false} {
		told := make(chan LogDroppedEvent, 1)
		opts := testOptions(image)
		opts.ReadOnly = readOnly
		opts.Events = &EventListener{LogDropped: func(e LogDroppedEvent) { told <- e }}
		db, err := Open(context.Background(), "mem", opts)
		must(t, err)
		if d := db.Stats().Log.Dropped; d != want {
			t.Errorf("dropped %+v, want %+v", d, want)
		}
		if e := <-told; e.File != 1 || e.Offset != last.Offset || e.Bytes != want.Bytes || e.Records != 1 || e.Reason == "" {
			t.Errorf("%+v", e)
		}
		must(t, db.Close())
	}
	db, err := Open(context.Background(), "mem", testOptions(image))
	must(t, err)
	if d := db.Stats().Log.Dropped; d != (wal.Dropped{}) {
		t.Errorf("dropped again: %+v", d)
	}
	must(t, db.Close())
}
