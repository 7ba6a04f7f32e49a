//go:build golden

package engine

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestMakeGolden writes the golden files that are not there. It never writes one
// again: a new format has new names. See testdata/golden/README.md.
func TestMakeGolden(t *testing.T) {
	must(t, os.MkdirAll(goldenDir, 0o755))
	for name, write := range map[string]func(m *goldenMaker){
		"store-closed":       (*goldenMaker).closed,
		"store-killed":       (*goldenMaker).killed,
		"store-dictionary":   (*goldenMaker).dictionary,
		"store-shadows":      (*goldenMaker).shadows,
		"store-opaque":       (*goldenMaker).opaque,
		"store-hierarchical": (*goldenMaker).hierarchical,
		"store-ttl":          (*goldenMaker).ttl,
		"store-mutablettl":   (*goldenMaker).mutableTTL,
		"store-unique":       (*goldenMaker).unique,
		"store-tombstones":   (*goldenMaker).tombstones,
		"store-retention":    (*goldenMaker).retention,
		"store-replicated":   (*goldenMaker).replicated,
		"store-split":        (*goldenMaker).split,
		"store-throughput":   (*goldenMaker).throughput,
		"store-limits":       (*goldenMaker).limits,
		"backup-limits":      (*goldenMaker).limitsBackup,
		"store-containers":   (*goldenMaker).containers,
		"store-version1":     (*goldenMaker).version1,
		"backup":             (*goldenMaker).backup,
		"stream":             (*goldenMaker).stream,
	} {
		name += os.Getenv("GOLDEN_SUFFIX")
		if _, err := os.Stat(filepath.Join(goldenDir, name+".zip")); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := &goldenMaker{T: t, name: name, ctx: context.Background(), mem: vfs.NewMem(), rng: rand.New(rand.NewPCG(1, 2))}
			m.opts = goldenOptions(m.mem, 0)
			m.opts.clock = func() time.Time { return goldenTime.Add(m.later) }
			m.opts.random = m.rng.Uint64
			m.open()
			write(m)
		})
	}
}

// goldenMaker is a store that is being made.
type goldenMaker struct {
	*testing.T
	ctx   context.Context
	name  string
	mem   *vfs.Mem
	opts  *Options
	rng   *rand.Rand
	later time.Duration // than goldenTime
	db    *DB
	c     *Container
}

func (m *goldenMaker) open() {
	db, err := Open(m.ctx, "golden", m.opts)
	must(m, err)
	m.db = db
}

// create makes a container and has the writes that follow go to it.
func (m *goldenMaker) create(name string, def ContainerDef) {
	c, err := m.db.CreateContainer(m.ctx, name, def)
	must(m, err)
	m.c = c
}

func (m *goldenMaker) upsert(doc string) {
	m.later += time.Second
	_, err := m.c.Upsert(m.ctx, []byte(doc), nil)
	must(m, err)
}

// docs writes documents of some logical partitions of the key /k.
func (m *goldenMaker) docs(from, to int) {
	for n := from; n < to; n++ {
		m.upsert(fmt.Sprintf(`{"id":"i%d","k":"k%d","n":%d,"s":%q,"tags":["t%d",%d,null]}`, n, n%4, n%9, goldenWord(n+m.rng.IntN(1000)), n%3, n))
	}
}

func (m *goldenMaker) delete(n int) {
	must(m, m.c.Delete(m.ctx, StringKey(fmt.Sprintf("k%d", n%4)), fmt.Sprintf("i%d", n), nil))
}

func (m *goldenMaker) flush()  { must(m, m.db.Flush(m.ctx)) }
func (m *goldenMaker) settle() { must(m, m.db.Compact(m.ctx)) }

// write writes files as a golden file.
func (m *goldenMaker) write(files map[string]string) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		must(m, err)
		_, err = w.Write([]byte(files[name]))
		must(m, err)
	}
	must(m, z.Close())
	must(m, os.WriteFile(filepath.Join(goldenDir, m.name+".zip"), b.Bytes(), 0o644))
	m.Logf("%d files, %d bytes", len(files), b.Len())
}

// list writes what a store holds in a file system.
func (m *goldenMaker) list(fsys vfs.FS) {
	db, err := Open(m.ctx, "golden", goldenOptions(fsys, 24*time.Hour))
	must(m, err)
	defer db.Close()
	checkVerified(m.T, db)
	must(m, os.WriteFile(filepath.Join(goldenDir, m.name+".txt"), []byte(goldenListing(m.T, db)), 0o644))
}

// kill takes the store as a killed process leaves it.
func (m *goldenMaker) kill() {
	mem := m.mem.Kill()
	m.db.Close()
	m.write(filesOf(m.T, mem))
	m.list(mem)
}

// close takes the store closed.
func (m *goldenMaker) close() {
	must(m, m.db.Close())
	m.write(filesOf(m.T, m.mem))
	m.list(m.mem)
}

var goldenByK = ContainerDef{PartitionKey: []string{"/k"}}

func (m *goldenMaker) some() {
	m.create("docs", goldenByK)
	m.docs(0, 40)
	m.flush()
	m.docs(10, 20)
	m.delete(3)
	m.settle()
	m.docs(30, 50)
	m.delete(5)
	m.flush()
	m.docs(0, 3)
	m.delete(7)
}

func (m *goldenMaker) closed() {
	m.some()
	m.create("empty", goldenByK)
	m.close()
}

// containers has a manifest that is a chain of edits.
func (m *goldenMaker) containers() {
	m.some()
	for n := range 60 {
		m.create(fmt.Sprintf("c%02d", n), ContainerDef{PartitionKey: []string{"/k"}, Throughput: float64(400 + n)})
		if n%20 == 7 {
			m.docs(n, n+3)
		}
	}
	for n := range 3 {
		must(m, m.db.DropContainer(m.ctx, fmt.Sprintf("c%02d", 10*n)))
	}
	c, err := m.db.Container("c07")
	must(m, err)
	must(m, c.SetThroughput(m.ctx, 900))
	m.kill()
}

func (m *goldenMaker) killed() {
	m.some()
	b := m.c.NewBatch(StringKey("k1"))
	for n := range 5 {
		must(m, b.Upsert(fmt.Appendf(nil, `{"id":"b%d","k":"k1","n":%d}`, n, n), nil))
	}
	_, err := m.c.Commit(m.ctx, b)
	must(m, err)
	_, err = m.c.Upsert(m.ctx, []byte(`{"id":"buffered","k":"k1"}`), &WriteOptions{Durability: Buffered})
	must(m, err)
	m.kill()
}

func (m *goldenMaker) dictionary() {
	m.opts.FileBytes, m.opts.memtableBytes = 4<<20, 4<<20
	must(m, m.db.Close())
	m.open()
	var text strings.Builder
	for range 1400 {
		fmt.Fprintf(&text, " %s", goldenWord(m.rng.IntN(100)))
	}
	for i, c := range []Compression{FastCompression, SmallCompression, NoCompression} {
		def := goldenByK
		def.Compression = c
		m.create(c.String(), def)
		docs := 80
		if c == NoCompression {
			docs = 3
		}
		for n := range docs {
			m.upsert(fmt.Sprintf(`{"id":"i%d","k":"k%d","n":%d,"s":"%s %s"}`, n, n%5, n, goldenWord(1000+i*1000+n), text.String()))
		}
		m.settle()
	}
	m.close()
}

func (m *goldenMaker) shadows() {
	def := goldenByK
	def.Index = IndexAll()
	m.create("all", def)
	m.docs(0, 60)
	m.flush()
	for n := 0; n < 60; n += 7 {
		m.docs(n, n+2)
	}
	m.delete(1)
	m.delete(30)
	m.flush()
	must(m, m.c.DeleteLogicalPartition(m.ctx, StringKey("k2"), nil))
	m.docs(2, 3)
	m.flush()
	def.Index = IndexPolicy{Include: []string{"/n/?"}}
	m.create("some", def)
	m.docs(0, 40)
	m.flush()
	m.docs(20, 30)
	m.flush()
	m.close()
}

func (m *goldenMaker) opaque() {
	m.create("bytes", ContainerDef{Kind: Opaque})
	m.create("pairs", ContainerDef{Kind: Opaque, PartitionKey: []string{"/a", "/b"}})
	for round := range 3 {
		for n := range 20 {
			c, key := m.db.partitions()[n%2].c, StringKey(fmt.Sprintf("k%d", n%3))
			if c.Name() == "pairs" {
				key = JoinKeys(key, NumberKey(float64(n%2)))
			}
			body := make([]byte, n*(round+1))
			for i := range body {
				body[i] = byte(m.rng.Uint32())
			}
			m.later += time.Second
			_, err := c.Put(m.ctx, key, fmt.Sprintf("i%d\x00", n-n%(round+1)), body, nil)
			must(m, err)
		}
		if round < 2 {
			m.flush()
		}
	}
	m.close()
}

// version1 has keys that are placed by version 1 of the hash, beside others.
func (m *goldenMaker) version1() {
	m.create("docs", goldenByK)
	m.docs(0, 6)
	m.create("old", ContainerDef{PartitionKey: []string{"/k"}, HashVersion: 1, MinPartitions: 2, Index: IndexAll(), UniqueKeys: [][]string{{"/n", "/id"}}})
	m.docs(0, 40)
	for n, key := range []string{`,"k":"redmond"`, `,"k":5`, `,"k":-0.5`, `,"k":true`, `,"k":null`, ``, `,"k":"` + strings.Repeat("long ", 50) + `"`} {
		m.upsert(fmt.Sprintf(`{"id":"of %d"%s,"n":%d}`, n, key, n))
	}
	m.flush()
	m.docs(0, 4)
	m.delete(7)
	must(m, m.c.SetKeyLimits(m.ctx, StringKey("redmond"), KeyLimits{Bytes: 1 << 20}))
	m.kill()
}

func (m *goldenMaker) hierarchical() {
	m.create("levels", ContainerDef{PartitionKey: []string{"/tenant", "/user", "/session"}, MinPartitions: 2, Index: IndexAll()})
	write := func(rounds int) {
		for n := range 12 * rounds {
			users := []string{`"u1"`, `17`, `true`, `null`, `-0.5`}
			session := fmt.Sprintf(`,"session":"s%d"`, n%2)
			if n%4 == 3 {
				session = ""
			}
			m.upsert(fmt.Sprintf(`{"id":"i%d","tenant":"t%d","user":%s%s,"n":%d,"s":%q}`, n, n%3, users[n%5], session, n, goldenWord(n)))
		}
	}
	write(3)
	m.flush()
	write(1)
	m.create("synthetic", ContainerDef{Synthetic: &SyntheticKey{Join: []string{"/k"}, Suffixes: 4, SuffixOf: "/n"}})
	m.docs(0, 20)
	m.flush()
	m.docs(0, 4)
	m.close()
}

func (m *goldenMaker) ttl() {
	def := goldenByK
	def.DefaultTTL = 12 * time.Hour
	m.create("half a day", def)
	for n, member := range []string{"", `,"ttl":-1`, `,"ttl":60`, `,"ttl":200000`} {
		m.upsert(fmt.Sprintf(`{"id":"i%d","k":"a","n":%d%s}`, n, n, member))
	}
	m.flush()
	def.DefaultTTL = NoExpiry
	m.create("ask", def)
	for n, member := range []string{"", `,"ttl":60`, `,"ttl":200000`} {
		m.upsert(fmt.Sprintf(`{"id":"i%d","k":"a","n":%d%s}`, n, n, member))
		m.upsert(fmt.Sprintf(`{"id":"j%d","k":"a","n":%d%s}`, n, n, member))
		m.flush()
	}
	m.upsert(`{"id":"i0","k":"a","ttl":300000}`)
	m.upsert(`{"id":"i2","k":"a","ttl":1}`)
	m.close()
}

// mutableTTL has defaults that were changed, and items with and without a time of their own.
func (m *goldenMaker) mutableTTL() {
	for _, tc := range []struct {
		name          string
		before, after time.Duration
	}{{"shorter", 48 * time.Hour, 12 * time.Hour}, {"longer", time.Minute, 48 * time.Hour}, {"off", time.Minute, 0}, {"own", 0, NoExpiry}} {
		def := goldenByK
		def.Index, def.DefaultTTL, def.MutableTTL, def.UniqueKeys = IndexAll(), tc.before, true, [][]string{{"/u"}}
		m.create(tc.name, def)
		for n, member := range []string{"", `,"ttl":-1`, `,"ttl":60`, `,"ttl":200000`} {
			m.upsert(fmt.Sprintf(`{"id":"i%d","k":"a","n":%d,"u":%d%s}`, n, n, n, member))
			m.upsert(fmt.Sprintf(`{"id":"j%d","k":"a","n":%d,"u":%d%s}`, n, n, n+10, member))
		}
		m.flush()
		m.later += 2 * time.Minute
		must(m, m.c.SetDefaultTTL(m.ctx, tc.after))
		for n, member := range []string{"", `,"ttl":-1`, `,"ttl":60`} {
			m.upsert(fmt.Sprintf(`{"id":"j%d","k":"a","n":%d,"u":%d%s}`, n, n+1, n+20, member))
		}
	}
	m.kill()
}

func (m *goldenMaker) unique() {
	def := goldenByK
	def.UniqueKeys = [][]string{{"/u"}, {"/s", "/n"}}
	m.create("docs", def)
	for n := range 30 {
		m.upsert(fmt.Sprintf(`{"id":"i%d","k":"k%d","u":%d,"n":%d,"s":"w%d"}`, n, n%3, n, n, n%4))
		if n == 20 {
			m.flush()
		}
	}
	must(m, m.c.Delete(m.ctx, StringKey("k0"), "i0", nil))
	m.upsert(`{"id":"i30","k":"k0","u":0,"n":0,"s":"w0"}`)
	m.flush()
	m.upsert(`{"id":"i1","k":"k1","u":"other","n":1,"s":"w1"}`)
	m.upsert(`{"id":"i31","k":"k1","u":1,"n":31,"s":"w1"}`)
	m.kill()
}

func (m *goldenMaker) tombstones() {
	m.create("docs", goldenByK)
	m.docs(0, 40)
	m.flush()
	must(m, m.c.DeleteLogicalPartition(m.ctx, StringKey("k0"), nil))
	m.docs(0, 1)
	m.flush()
	must(m, m.c.DeleteLogicalPartition(m.ctx, StringKey("k1"), nil))
	m.docs(1, 2)
	m.close()
}

func (m *goldenMaker) retention() {
	def := goldenByK
	def.ChangeRetention, def.DefaultTTL = 48*time.Hour, NoExpiry
	m.create("docs", def)
	m.docs(0, 12)
	m.flush()
	m.docs(4, 8)
	m.delete(2)
	m.flush()
	must(m, m.c.DeleteLogicalPartition(m.ctx, StringKey("k3"), nil))
	m.docs(3, 5)
	m.delete(5)
	m.close()
}

// entries applies entries to the partitions of a replicated container.
func (m *goldenMaker) entries(from, to int) {
	for n := from; n < to; n++ {
		m.later += time.Second
		for _, p := range m.c.Partitions() {
			var batches []*Batch
			for k := range 4 {
				key := StringKey(fmt.Sprintf("k%d", k))
				if epk := key.EPK(); m.c.partition(p.ID).Range.Contains(&epk) {
					b := m.c.NewBatch(key)
					id := fmt.Sprintf("i%d", n%5)
					must(m, b.Upsert(fmt.Appendf(nil, `{"id":%q,"k":"k%d","u":%d,"n":%d,"s":%q}`, id, k, n, n, goldenWord(n)), nil))
					if n%7 == 6 {
						must(m, b.Delete(id, nil))
					}
					batches = append(batches, b)
				}
			}
			_, err := m.c.ApplyAt(m.ctx, p.ID, Entry{Index: uint64(n + 1), Time: goldenTime.Add(m.later), Batches: batches})
			must(m, err)
		}
	}
}

func (m *goldenMaker) replicated() {
	m.create("docs", replicaDef)
	m.entries(0, 9)
	m.flush()
	m.entries(9, 14)
	m.kill()
}

func (m *goldenMaker) split() {
	m.opts.keepInheritance = true
	must(m, m.db.Close())
	m.open()
	def := goldenByK
	def.Index = IndexAll()
	m.create("docs", def)
	m.docs(0, 40)
	m.flush()
	m.docs(10, 20)
	m.delete(3)
	job, err := m.c.Split(m.ctx, m.c.Partitions()[0].ID, nil)
	must(m, err)
	must(m, job.Wait(m.ctx))
	m.docs(15, 25)
	for i, p := range m.c.Partitions() {
		if !p.Inherits || p.ForeignBytes == 0 {
			m.Fatalf("child %d inherits nothing, or shares no file", i)
		}
	}
	m.kill()
}

func (m *goldenMaker) throughput() {
	def := goldenByK
	def.MinPartitions, def.Throughput, def.NoBurst = 3, 18_000, true
	def.Limits = ContainerLimits{ItemBytes: 10_000, LogicalPartitionBytes: 1 << 30, BatchOperations: 50, BatchBytes: 100_000, PartitionThroughput: 10_000}
	m.create("docs", def)
	m.docs(0, 20)
	m.flush()
	parts := m.c.Partitions()
	must(m, m.c.Redistribute(m.ctx, map[PartitionID]float64{parts[0].ID: 8000}, parts[1].ID))
	job, err := m.c.Merge(m.ctx, parts[1].ID, parts[2].ID)
	must(m, err)
	must(m, job.Wait(m.ctx))
	m.close()
}

// limited makes a container with limits of its logical partitions.
func (m *goldenMaker) limited() {
	def := goldenByK
	def.Limits = ContainerLimits{LogicalPartitionBytes: 1 << 30, LogicalPartitionThroughput: 1e6}
	m.create("docs", def)
	m.docs(0, 20)
	m.flush()
	must(m, m.c.SetKeyLimits(m.ctx, StringKey("k1"), KeyLimits{Throughput: 5e5, Bytes: 1 << 20}))
	must(m, m.c.SetKeyLimits(m.ctx, NumberKey(7), KeyLimits{Throughput: -1}))
	m.docs(15, 25)
}

func (m *goldenMaker) limits() {
	m.limited()
	m.close()
}

func (m *goldenMaker) limitsBackup() {
	m.limited()
	m.writeBackups()
}

func (m *goldenMaker) backup() {
	def := goldenByK
	def.MinPartitions, def.Index = 2, IndexAll()
	m.create("docs", def)
	m.docs(0, 40)
	m.flush()
	m.docs(30, 45)
	m.writeBackups()
}

// writeBackups writes a full backup and an incremental one that follows it.
func (m *goldenMaker) writeBackups() {
	var full, incremental bytes.Buffer
	info, err := m.db.Backup(m.ctx, &full, nil)
	must(m, err)
	m.flush()
	m.docs(0, 8)
	m.delete(9)
	m.flush()
	m.docs(44, 48)
	_, err = m.db.Backup(m.ctx, &incremental, &BackupOptions{Since: &info})
	must(m, err)
	must(m, m.db.Close())
	m.write(map[string]string{"full": full.String(), "incremental": incremental.String()})
	m.list(m.mem)
}

func (m *goldenMaker) stream() {
	m.create("docs", replicaDef)
	m.entries(0, 9)
	m.flush()
	m.entries(9, 14)
	files := make(map[string]string)
	for i, p := range m.c.Partitions() {
		var b bytes.Buffer
		_, err := m.c.ExportPartition(m.ctx, p.ID, &b)
		must(m, err)
		files[fmt.Sprintf("partition-%d", i)] = b.String()
	}
	must(m, m.db.Close())
	m.write(files)
	m.list(m.mem)
}

// goldenWord is a word of a document, the same for the same n.
func goldenWord(n int) string {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	b := make([]byte, 6+rng.IntN(10))
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return fmt.Sprintf("w%d-%s", n%10, b)
}
