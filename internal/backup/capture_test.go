package backup

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// table makes a memtable of versions without a body. An empty id is a partition tombstone.
func table(t *testing.T, e *lsm.Env, versions ...struct {
	pk, id string
	seq    uint64
}) *memtable.Table {
	t.Helper()
	m := memtable.New(e.Pool, memtable.Range{Hi: 1 << 62}, 0, e.Seed)
	t.Cleanup(m.Release)
	for _, v := range versions {
		pk := partmap.String(v.pk)
		epk := pk.EPK()
		key := item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk.Encoded(), ID: []byte(v.id)}
		ver := item.Version{Seq: v.seq, Modified: 1}
		if v.id == "" {
			ver.Flags = item.Tombstone
		}
		if err := m.Put(&key, &ver, true); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// operations writes what is in a record as text.
func operations(t *testing.T, s wal.Stream, payload []byte) string {
	t.Helper()
	text := fmt.Sprint("stream ", s, ":")
	for len(payload) > 0 {
		var op logrecord.Operation
		var err error
		if payload, err = logrecord.Decode(payload, true, &op); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf(" %s@%d", op.Key.ID, op.Version.Seq)
		if op.At.Index != 0 {
			text += fmt.Sprintf(" entry %d", op.At.Index)
		}
	}
	return text
}

// recordTexts keeps the records of a stream as text.
type recordTexts struct {
	t       *testing.T
	catalog *Catalog
	all     []string
}

func (r *recordTexts) Begin(c *Catalog) error { r.catalog = c; return nil }
func (r *recordTexts) File(*File) error       { return nil }
func (r *recordTexts) Data([]byte) error      { return nil }

func (r *recordTexts) Record(s wal.Stream, _ uint64, payload []byte) error {
	r.all = append(r.all, operations(r.t, s, payload))
	return nil
}

// TestCapture backs up a partition of memtables. Each item has its newest version up to the
// cut, in a stream of which that sequence is not flushed; an item that was deleted with its
// logical partition is left out. It makes no difference whether the records go through a
// spool, except that the memtables are not held any more behind it.
func TestCapture(t *testing.T) {
	type version = struct {
		pk, id string
		seq    uint64
	}
	for _, spooled := range []bool{false, true} {
		mem := vfs.NewMem()
		env := &lsm.Env{FS: mem, StoreID: manifest.ID{7}, Epoch: epoch.New(), Pool: arena.NewPool(16 << 20), Seed: item.NewSeed()}
		t.Cleanup(env.Pool.Close)
		tree := &lsm.Tree{Env: env, ID: 3}
		tree.Install.FlushedSeq.Store(10)
		inherits := []manifest.Inherited{{Stream: 2, FlushedSeq: 8}, {Stream: 1, FlushedSeq: 4}}
		tree.Inherits.Store(&inherits)
		tree.ChangeFloor.Store(2)
		released := 0
		part := Part{
			Tree: tree, Release: func() { released++ }, Cut: 20, Floor: 15, Applied: manifest.Applied{Index: 4, Time: 1}, Replicated: true,
			Version: &lsm.Version{
				Active: table(t, env, version{"k", "a", 11}, version{"k", "", 12}, version{"k", "b", 13}, version{"k", "b", 14}, version{"k", "b", 30},
					version{"m", "c", 6}, version{"n", "d", 9}, version{"o", "e", 21}),
				Frozen: []lsm.Frozen{{Table: table(t, env, version{"k", "b", 7})}, {Table: table(t, env, version{"k", "b", 5})}},
			},
		}
		state := manifest.Store{
			Head:       manifest.Head{StoreID: env.StoreID, LastSeq: 18, SeqLimit: 19, NextContainer: 2, NextPartition: 4, Clean: true, LogFirst: 5},
			Containers: []manifest.Container{{ID: 1, Name: "c"}},
			Partitions: []manifest.Partition{{ID: 3, Container: 1, Max: manifest.Bytes{0xFF}}},
		}
		c := NewCapture(mem, env.Epoch.Enter(), manifest.ID{9}, time.UnixMilli(77), state, []Part{part})
		if err := c.List(nil); err != nil {
			t.Fatal(err)
		}
		if spooled {
			if err := c.Spool(t.Context()); err != nil {
				t.Fatal(err)
			}
			env.Epoch.Synchronize() // it would wait for a guard that is held
		}
		var out bytes.Buffer
		var told int64
		info, err := c.Write(t.Context(), &out, func(bytes, total int64) { told = bytes })
		if err != nil {
			t.Fatal(err)
		}
		env.Epoch.Synchronize()
		c.Release()
		if names := mem.Names(); released != 1 || len(names) > 0 || told != int64(out.Len()) || info.Bytes != told {
			t.Errorf("released %d times, left %v, told of %d bytes, wrote %d, says %d", released, names, told, out.Len(), info.Bytes)
		}
		got := &recordTexts{t: t}
		read, err := NewReader("backup", &out).Next(t.Context(), got)
		if err != nil || !reflect.DeepEqual(read, info) {
			t.Fatalf("%v: %+v, want %+v", err, read, info)
		}
		if s := got.catalog.Store; info.Seq != 20 || info.NextSeq != 19 || s.LastSeq != 18 || s.SeqLimit != 21 || s.Clean || s.LogFirst != 0 || got.catalog.Partitions[0].ChangeFloor != 15 {
			t.Errorf("the backup is of sequence %d, its store of %+v", info.Seq, s.Head)
		}
		slices.Sort(got.all[3:]) // by the hashes of their keys
		want := []string{"stream 3: @20 entry 4", "stream 1: b@5", "stream 1: b@7", "stream 1: c@6", "stream 2: d@9", "stream 3: @12 b@14"}
		if !slices.Equal(got.all, want) {
			t.Errorf("spooled %v: records\n%s\nwant\n%s", spooled, strings.Join(got.all, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestCaptureSequences: the sequence of a backup is the highest of all, and the last one of its store the highest that
// the store gave out, whether its manifest or a partition says it. A replicated partition counts its own.
func TestCaptureSequences(t *testing.T) {
	for _, test := range []struct{ state, own, replicated, seq, last uint64 }{
		{18, 20, 40, 40, 20},
		{22, 20, 40, 40, 22},
		{22, 20, 21, 22, 22},
		{18, 20, 19, 20, 20},
		{0, 0, 40, 40, 0},
	} {
		env := &lsm.Env{FS: vfs.NewMem(), Epoch: epoch.New()}
		parts := []Part{
			{Tree: &lsm.Tree{Env: env, ID: 1}, Version: new(lsm.Version), Cut: test.own},
			{Tree: &lsm.Tree{Env: env, ID: 2}, Version: new(lsm.Version), Cut: test.replicated, Replicated: true},
		}
		state := manifest.Store{Head: manifest.Head{LastSeq: test.state, SeqLimit: 30}}
		c := NewCapture(env.FS, env.Epoch.Enter(), manifest.ID{9}, time.UnixMilli(77), state, parts)
		c.leaveMemory()
		if s := c.catalog.Store; c.catalog.Seq != test.seq || s.LastSeq != test.last || s.SeqLimit != max(30, test.seq+1) {
			t.Errorf("%+v: the backup is of sequence %d, its store of %+v", test, c.catalog.Seq, s.Head)
		}
	}
}
