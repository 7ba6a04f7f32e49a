package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// TestReplayOfWhatNoFileTakes: a record with a right checksum has an item that no segment file of the
// container can hold. The open says so, with the place; else no flush would succeed any more.
func TestReplayOfWhatNoFileTakes(t *testing.T) {
	key := StringKey("a")
	for name, op := range map[string]logrecord.Operation{
		"key of two levels": {Key: item.Key{PK: JoinKeys(key, key).Encoded(), ID: []byte("x")}, Version: item.Version{Modified: 1, Body: []byte(`{}`)}},
		"large document":    {Key: item.Key{PK: key.Encoded(), ID: []byte("x")}, Version: item.Version{Modified: 1, Body: make([]byte, segment.MaxBody+1)}},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := testOptions(mem)
			o.memtableBytes, o.MemoryBudget = 64<<20, 1<<30
			db, c := openStore(t, o)
			payload := append(logrecord.AppendHead(nil, &op.Key, &op.Version), op.Version.Body...)
			_, pos, err := db.log.Append(wal.Stream(c.Partitions()[0].ID), wal.TypeWrite, 1, payload, nil)
			must(t, err)
			must(t, db.log.Wait(pos, true))
			o.fs = mem.Crash(vfs.CrashOptions{})
			again, err := Open(context.Background(), "mem", o)
			if err == nil {
				t.Errorf("it is opened; a flush: %v", again.Flush(context.Background()))
				again.abandonForTest()
				return
			}
			if at := new(CorruptionError); !errors.As(err, &at) || at.Offset <= 0 {
				t.Error(err)
			}
		})
	}
}
