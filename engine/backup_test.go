package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/vfs"
)

// below is a directory of a file system as a file system.
type below struct {
	vfs.FS
	dir string
}

func (b below) at(name string) string                     { return path.Join(b.dir, name) }
func (b below) Path(name string) string                   { return b.FS.Path(b.at(name)) }
func (b below) Create(name string) (vfs.File, error)      { return b.FS.Create(b.at(name)) }
func (b below) Open(name string) (vfs.File, error)        { return b.FS.Open(b.at(name)) }
func (b below) OpenWrite(name string) (vfs.File, error)   { return b.FS.OpenWrite(b.at(name)) }
func (b below) Mkdir(name string) error                   { return b.FS.Mkdir(b.at(name)) }
func (b below) Remove(name string) error                  { return b.FS.Remove(b.at(name)) }
func (b below) Rename(from, to string) error              { return b.FS.Rename(b.at(from), b.at(to)) }
func (b below) Link(from, to string) error                { return b.FS.Link(b.at(from), b.at(to)) }
func (b below) List(dir string) ([]string, error)         { return b.FS.List(b.at(dir)) }
func (b below) Stat(name string) (vfs.Info, error)        { return b.FS.Stat(b.at(name)) }
func (b below) SyncDir(dir string) error                  { return b.FS.SyncDir(b.at(dir)) }
func (b below) OpenDir(dir string) (vfs.Dir, error)       { return b.FS.OpenDir(b.at(dir)) }
func (b below) Lock(name, note string) (io.Closer, error) { return b.FS.Lock(b.at(name), note) }

// restoredCopy opens what a backup, or several that follow each other, restores
// to.
func restoredCopy(t *testing.T, opts *Options, streams ...[]byte) *DB {
	t.Helper()
	mem := vfs.NewMem()
	must(t, backup.Restore(context.Background(), mem, "copy", bytes.NewReader(bytes.Join(streams, nil))))
	o := *opts
	o.fs, o.ReadOnly = below{mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), "copy"}, false
	copied, err := Open(context.Background(), "copy", &o)
	must(t, err)
	t.Cleanup(func() { copied.Close() })
	return copied
}

// TestBackup makes a full backup and incremental ones after it of a store that is
// written to, flushed, merged and split, and restores each with those before it.
// Every restored store answers scans, reads and random queries as the original at
// its sequence.
func TestBackup(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	opts := testOptions(vfs.NewMem())
	opts.keepInheritance = true
	opts.memtableBytes = 1 << 20
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2, Index: IndexAll()})
	var writing sync.WaitGroup
	done := make(chan struct{})
	write := func(w uint64, n int) error {
		id, k := fmt.Sprint("i", rand.New(rand.NewPCG(w, uint64(n))).IntN(60)), fmt.Sprint("k", n%40)
		b := c.NewBatch(StringKey(k))
		for _, id := range []string{"twin", id} { // half a batch would show
			if err := b.Upsert(fmt.Appendf(nil, `{"id":%q,"k":%q,"n":%d,"w":%d,"pad":%q}`, id, k, n, w, strings.Repeat("x", n%100)), nil); err != nil {
				return err
			}
		}
		if _, err := c.Commit(ctx, b); err != nil {
			return err
		}
		if n%5 == 0 {
			if err := c.Delete(ctx, StringKey(k), id, nil); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		return nil
	}
	for n := range 300 {
		must(t, write(9, n))
	}
	var streams [][]byte
	var since *BackupInfo
	for i := range 5 {
		switch i {
		case 1:
			must(t, db.Flush(ctx))
		case 2, 3:
			job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
			must(t, err)
			must(t, job.Wait(ctx))
		case 4:
			must(t, db.Compact(ctx))
		}
		// From here to the comparison nothing is flushed: every version stays.
		for w := range uint64(2) {
			writing.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					if err := write(w+uint64(10*i), n); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		var stream bytes.Buffer
		info, err := db.Backup(ctx, &stream, &BackupOptions{Since: since})
		close(done)
		writing.Wait()
		done = make(chan struct{})
		must(t, err)
		streams, since = append(streams, stream.Bytes()), &info
		if all, err := VerifyBackup(ctx, bytes.NewReader(bytes.Join(streams, nil))); err != nil || !reflect.DeepEqual(all[i], info) {
			t.Errorf("%v: %+v, want %+v", err, all[len(all)-1], info)
		}
		copied := restoredCopy(t, opts, streams...)
		cc, err := copied.Container("c")
		must(t, err)
		compareStores(t, rng, &Snapshot{c: c, seq: info.Seq, done: make(chan struct{})}, cc)
		_, err = cc.Upsert(ctx, doc("new", "k1", i), nil)
		must(t, err)
		must(t, copied.Compact(ctx))
		checkVerified(t, copied)
	}
}

// compareStores compares a container at a sequence with one that should be the
// same.
func compareStores(t *testing.T, rng *rand.Rand, at *Snapshot, cc *Container) {
	t.Helper()
	ctx := context.Background()
	list := func(items iter.Seq2[Item, error]) (all []string) {
		for it, err := range items {
			must(t, err)
			all = append(all, fmt.Sprintf("%v %s %d %s", it.Key, it.ID, it.Seq, it.Body))
		}
		return all
	}
	want := list(at.ScanAll(ctx, nil))
	if got := list(cc.ScanAll(ctx, nil)); !slices.Equal(got, want) {
		t.Fatalf("sequence %d: %d items, want %d", at.seq, len(got), len(want))
	}
	for range 30 {
		k := StringKey(fmt.Sprint("k", rng.IntN(44)))
		q := Query{Where: []Filter{Range("/n", Incl(rng.IntN(300)), Unbounded()), Eq("/w", rng.IntN(50)), Exists("/pad")}[rng.IntN(3)]}
		scope := []Scope{AllPartitions(), OnePartition(k)}[rng.IntN(2)]
		if rng.IntN(2) == 0 {
			q.OrderBy = []QueryOrder{{Path: "/n", Desc: rng.IntN(2) == 0}}
		}
		if got, want := list(cc.Query(ctx, scope, q).All()), list(at.Query(ctx, scope, q).All()); !slices.Equal(got, want) {
			t.Fatalf("sequence %d: %+v: %d results, want %d", at.seq, q, len(got), len(want))
		}
		id := fmt.Sprint("i", rng.IntN(60))
		got, gotErr := cc.Read(ctx, k, id)
		item, err := at.Read(ctx, k, id)
		if !errors.Is(gotErr, err) || string(got.Body) != string(item.Body) || got.ETag != item.ETag {
			t.Fatalf("read %v %s: %v, want %v", k, id, gotErr, err)
		}
	}
}

// TestRestoreStopped stops a restore of three backups at every call to the file
// system, and makes each call fail. Where the store is to be there is nothing or
// all of it, and after an error nothing is left beside it.
func TestRestoreStopped(t *testing.T) {
	ctx := context.Background()
	_, _, streams, _ := someBackups(t)
	input := bytes.Join(streams, nil)
	check := func(image *vfs.Mem) error {
		names, err := image.List("copy")
		if errors.Is(err, ErrMissing) || err == nil && len(names) == 0 {
			return nil
		}
		return holds(below{image, "copy"}, 24)
	}
	step := int64(lone(1)) // every one of them is tried without the detector
	for n, stopped := int64(1), true; stopped; n += step {
		stopped = false
		mem := vfs.NewMem()
		if n%2 == 0 {
			must(t, mem.Mkdir("copy"))
			must(t, mem.SyncDir("."))
		}
		faulty := vfs.NewFaulty(mem)
		faulty.StopAt(n, func() {
			stopped = true
			for i, image := range crashImages(mem, uint64(n)) {
				if err := check(image); err != nil {
					t.Errorf("stopped at call %d, image %d: %v", n, i, err)
				}
			}
		})
		err := backup.Restore(ctx, faulty, "copy", bytes.NewReader(input))
		if !stopped {
			must(t, err)
			must(t, check(mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})))
		}
	}
	for n := int64(1); ; n += step {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		faulty.FailAt(n, errInjected, false)
		err := backup.Restore(ctx, faulty, "copy", bytes.NewReader(input))
		if faulty.Calls() < n {
			must(t, err)
			break
		}
		must(t, check(mem))
		if names, listErr := mem.List("."); err != nil && (listErr != nil || len(names) != 0) && !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("call %d failed (%v), left: %v, %v", n, err, names, listErr)
		}
	}
}

// TestBackupFailedCalls makes each call to the file system fail that a backup
// makes: the store goes on and has no file more than before.
func TestBackupFailedCalls(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	opts := testOptions(faulty)
	opts.memtableBytes = 8 << 20
	db, c := openStore(t, opts)
	upsert(t, c, "first", 100)
	must(t, db.Flush(ctx))
	for i := range 3 {
		upsert(t, c, fmt.Sprint("large", i), 1<<19) // two fill the buffer of the spool
	}
	names := mem.Names()
	for n := int64(1); ; n++ {
		faulty.FailAt(faulty.Calls()+n, errInjected, false)
		calls := faulty.Calls()
		var stream bytes.Buffer
		_, err := db.Backup(ctx, &stream, nil)
		if faulty.Calls() < calls+n {
			must(t, err)
			if len(restoredItems(t, opts, stream.Bytes())) != 4 {
				t.Error("items are missing")
			}
			break
		}
		if err != nil && !errors.Is(err, errInjected) {
			t.Errorf("call %d: %v", n, err)
		}
		if errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrFailed) {
			// The log could not be synced.
			must(t, db.Close())
			db, c = openStore(t, opts)
			names = mem.Names()
			continue
		}
		if now := mem.Names(); !slices.Equal(now, names) && faulty.CallsOf(vfs.OpRemove) == 0 {
			t.Errorf("call %d failed, files: %v, were %v", n, now, names)
		}
	}
	faulty.FailAt(0, nil, false)
	upsert(t, c, "more", 10)
}

func restoredItems(t *testing.T, opts *Options, streams ...[]byte) (ids []string) {
	t.Helper()
	cc, err := restoredCopy(t, opts, streams...).Container("c")
	must(t, err)
	for it, err := range cc.ScanAll(context.Background(), nil) {
		must(t, err)
		ids = append(ids, it.ID)
	}
	return ids
}

// TestDamagedBackup changes each byte of a backup, and cuts it at each length:
// the error is typed, lies in the input and leaves nothing.
func TestDamagedBackup(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	_, _, streams, _ := someBackups(t)
	good := bytes.Join(streams[:2], nil)
	check := func(what string, i int, bad []byte) {
		t.Helper()
		mem := vfs.NewMem()
		var err error
		if i%8 == 0 {
			err = backup.Restore(ctx, mem, "copy", bytes.NewReader(bad))
		} else {
			_, err = VerifyBackup(ctx, bytes.NewReader(bad))
		}
		var corruption *CorruptionError
		if !errors.As(err, &corruption) && !errors.Is(err, ErrTooNew) {
			t.Fatalf("%s at %d: %v", what, i, err)
		}
		if corruption != nil && (corruption.Offset < 0 || corruption.Offset > int64(len(bad))) {
			t.Fatalf("%s at %d: offset %d: %v", what, i, corruption.Offset, err)
		}
		if names := mem.Names(); len(names) > 0 {
			t.Fatalf("%s at %d left %v", what, i, names)
		}
	}
	for i := range good {
		if i%lone(13) > 0 && i > 100 && i < len(good)-50 {
			continue
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1 << rng.IntN(8)
		check("changed", i, bad)
		if i != len(streams[0]) { // else it is the first backup, whole
			check("cut", i, good[:i])
		}
	}
	check("added", 16, append(bytes.Clone(good), 0))
}

// TestBackupOfDamage: a backup of a damaged file ends in an error that names it.
func TestBackupOfDamage(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	db, c := openStore(t, testOptions(mem))
	for n := range 50 {
		upsert(t, c, fmt.Sprint(n), 200)
	}
	must(t, db.Flush(ctx))
	name := db.partitions()[0].Version.Load().Runs[0].Files[0].Name
	f, err := mem.OpenWrite(name)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("damage"), 300)
	must(t, err)
	var stream bytes.Buffer
	_, err = db.Backup(ctx, &stream, nil)
	var corruption *CorruptionError
	if !errors.As(err, &corruption) || !strings.Contains(corruption.File, name) {
		t.Errorf("%v does not name %s", err, name)
	}
	if err := backup.Restore(ctx, vfs.NewMem(), "copy", &stream); !errors.Is(err, ErrCorrupt) {
		t.Errorf("restored: %v", err)
	}
}

// failingWriter fails after some bytes.
type failingWriter struct {
	left int
	then func() error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.then()
	}
	return len(p), nil
}

func TestBackupEnds(t *testing.T) {
	ctx := context.Background()
	db, _, streams, _ := someBackups(t)
	if _, err := db.Backup(ctx, &failingWriter{100, func() error { return errInjected }}, nil); !errors.Is(err, errInjected) {
		t.Error(err)
	}
	canceled, cancel := context.WithCancel(ctx)
	if _, err := db.Backup(canceled, &failingWriter{1000, func() error { cancel(); return canceled.Err() }}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mem := vfs.NewMem()
	if err := backup.Restore(canceled, mem, "copy", bytes.NewReader(streams[0])); !errors.Is(err, context.Canceled) || len(mem.Names()) > 0 {
		t.Errorf("%v, left %v", err, mem.Names())
	}
	var told []BackupProgress
	info, err := db.Backup(ctx, io.Discard, &BackupOptions{Progress: func(p BackupProgress) { told = append(told, p) }})
	must(t, err)
	if len(told) == 0 || told[len(told)-1].Bytes != info.Bytes {
		t.Errorf("told %v of %d bytes", told, info.Bytes)
	}
	must(t, db.Close())
	if _, err := db.Backup(ctx, io.Discard, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestWrongParent: a backup follows any earlier one of its store, and no other.
func TestWrongParent(t *testing.T) {
	ctx := context.Background()
	db, _, streams, infos := someBackups(t)
	_, _, _, otherInfos := someBackups(t)
	if _, err := db.Backup(ctx, io.Discard, &BackupOptions{Since: &otherInfos[0]}); !errors.Is(err, ErrWrongParent) {
		t.Error(err)
	}
	// Through JSON, and back to the first: a second branch.
	text, err := json.Marshal(infos[0])
	must(t, err)
	var since BackupInfo
	must(t, json.Unmarshal(text, &since))
	var branch bytes.Buffer
	info, err := db.Backup(ctx, &branch, &BackupOptions{Since: &since})
	must(t, err)
	if n := len(restoredItems(t, testOptions(nil), streams[0], branch.Bytes())); n != 24 || info.Parent != infos[0].ID {
		t.Errorf("%d items, parent %s", n, info.Parent)
	}
}

func TestRestoreRefusals(t *testing.T) {
	ctx := context.Background()
	_, _, streams, _ := someBackups(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	must(t, Restore(ctx, bytes.NewReader(streams[0]), dir))
	if err := Restore(ctx, bytes.NewReader(streams[0]), dir); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	copied, err := Open(ctx, dir, testOptions(nil))
	must(t, err)
	must(t, copied.Close())
	empty := t.TempDir()
	must(t, Restore(ctx, bytes.NewReader(streams[0]), empty))
	other := filepath.Join(t.TempDir(), "c")
	must(t, os.Mkdir(other+".restoring", 0o700))
	if err := Restore(ctx, bytes.NewReader(streams[0]), other); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), ".restoring") {
		t.Error(err)
	}
	if err := Restore(ctx, strings.NewReader(""), filepath.Join(t.TempDir(), "d")); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	if err := Restore(ctx, strings.NewReader(""), ""); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestBackupOfInheritance: what a partition has inherited of two others may be
// older than what it has flushed of one of them.
func TestBackupOfInheritance(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	opts.keepInheritance = true
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	for n := range 40 {
		_, err := c.Upsert(ctx, doc("a", fmt.Sprint("k", n), n), nil)
		must(t, err)
	}
	parts := c.Partitions()
	job, err := c.Merge(ctx, parts[0].ID, parts[1].ID)
	must(t, err)
	must(t, job.Wait(ctx))
	p := db.partitions()[0]
	for flushed := 0; len(p.Inherited()) > 0; flushed++ {
		var stream bytes.Buffer
		_, err := db.Backup(ctx, &stream, nil)
		must(t, err)
		if n := len(restoredItems(t, opts, stream.Bytes())); n != 40 {
			t.Errorf("after %d flushes: %d items", flushed, n)
		}
		must(t, p.FlushOldest(ctx))
	}
}

// TestBackupsBesideWriter: a backup from beside a writer follows one that the writer has made, also when nothing
// shows the newest sequence that it had given out: it opened the store after a crash and has written nothing, or
// it has dropped what it wrote, and maybe released the log of it.
func TestBackupsBesideWriter(t *testing.T) {
	for _, what := range []string{"written", "nothing written", "dropped", "dropped, log released"} {
		t.Run(what, func(t *testing.T) {
			ctx := t.Context()
			mem := killedStore(t, 5)
			opts := testOptions(mem)
			db, err := Open(ctx, "m", opts)
			must(t, err)
			defer db.Close()
			if what != "nothing written" {
				c, err := db.CreateContainer(ctx, "newest", byK)
				must(t, err)
				upsert(t, c, "1", 50)
			}
			var full, next bytes.Buffer
			info, err := db.Backup(ctx, &full, nil)
			must(t, err)
			switch what {
			case "dropped, log released":
				must(t, errors.Join(db.DropContainer(ctx, "newest"), db.Flush(ctx), db.log.Rotate(), db.retention.Release()))
			case "dropped":
				must(t, db.DropContainer(ctx, "newest"))
			}
			o := *opts
			o.ReadOnly = true
			beside, err := Open(ctx, "m", &o)
			must(t, err)
			defer beside.Close()
			if _, err = beside.Backup(ctx, &next, &BackupOptions{Since: &info}); err != nil {
				t.Fatal(err)
			}
			copied := restoredCopy(t, opts, full.Bytes(), next.Bytes())
			for is := range db.Containers() {
				_, err := copied.Container(is.Name)
				must(t, err)
			}
		})
	}
}

// TestBackupsAfterReplicated: a backup follows an earlier one also when the partitions with the highest sequences,
// those of a replicated container, which counts its own, have left in between. The writer makes each backup, or a
// process that reads beside it. The partition applied entries, or was installed from a plain container and has applied
// none. The three backups restore to what the store has, of which a backup follows in turn.
func TestBackupsAfterReplicated(t *testing.T) {
	leave := map[string]func(t *testing.T, c *Container, older []byte){
		"dropped": func(t *testing.T, c *Container, _ []byte) {
			must(t, c.db.DropContainer(t.Context(), c.Name()))
		},
		"moved away": func(t *testing.T, c *Container, _ []byte) {
			must(t, c.Evict(t.Context(), c.Partitions()[0].ID))
		},
		"replaced by an older one": func(t *testing.T, c *Container, older []byte) {
			must(t, second(c.ReplacePartition(t.Context(), c.Partitions()[0].ID, bytes.NewReader(older))))
		},
	}
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	for how, leave := range leave {
		for bits := range 64 {
			if rng.IntN(lone(1)) > 0 {
				continue
			}
			readers, released, rotated, installed := bits&7, bits&8 > 0, bits&16 > 0, bits&32 > 0 // readers has a bit for each backup
			t.Run(fmt.Sprintf("%s, readers %03b, log released %t, rotated %t, installed %t", how, readers, released, rotated, installed), func(t *testing.T) {
				ctx := t.Context()
				opts := replicaOptions(vfs.NewMem(), time.Minute)
				db, c, err := evictStore(t, opts.fs)
				must(t, err)
				defer db.Close()
				own, err := db.CreateContainer(ctx, "own", byK)
				must(t, err)
				upsert(t, own, "1", 50)
				var older bytes.Buffer
				for i := uint64(1); i <= 100 && !installed; i++ {
					if i == 2 {
						must(t, second(c.ExportPartition(ctx, c.Partitions()[0].ID, &older)))
					}
					must(t, applyItem(c, i, "a", nil))
				}
				if installed {
					def := evictDef
					def.Replicated = false
					other, plain := openStore(t, replicaOptions(vfs.NewMem(), time.Minute), def)
					must(t, second(plain.ExportPartition(ctx, plain.Partitions()[0].ID, &older)))
					upsert(t, plain, "1", 50)
					for i := range 100 {
						upsert(t, plain, "1", 50+i)
					}
					var image bytes.Buffer
					must(t, second(plain.ExportPartition(ctx, plain.Partitions()[0].ID, &image)))
					must(t, second(c.InstallPartition(ctx, &image)))
					must(t, other.Close())
				}
				if rotated { // a full file of the log says its highest sequence
					must(t, db.log.Rotate())
				}
				var streams [][]byte
				var infos []BackupInfo
				for i := range 3 {
					from := db
					if readers>>i&1 != 0 {
						o := *opts
						o.ReadOnly = true
						from, err = Open(ctx, "store", &o)
						must(t, err)
						defer from.Close()
					}
					o := new(BackupOptions)
					if i > 0 {
						o.Since = &infos[i-1]
					}
					var b bytes.Buffer
					info, err := from.Backup(ctx, &b, o)
					if err != nil {
						t.Fatalf("backup %d: %v", i+1, err)
					}
					streams, infos = append(streams, b.Bytes()), append(infos, info)
					if i == 0 {
						leave(t, c, older.Bytes())
						if released { // it tells a reader the sequences of what has left
							must(t, errors.Join(db.Flush(ctx), db.log.Rotate(), db.retention.Release()))
						}
						upsert(t, own, "2", 50)
					}
				}
				copied := restoredCopy(t, opts, streams...)
				restored, err := copied.Container("own")
				must(t, err)
				for _, id := range []string{"1", "2"} {
					must(t, second(restored.Read(ctx, StringKey("a"), id)))
				}
				for _, info := range infos {
					must(t, second(copied.Backup(ctx, io.Discard, &BackupOptions{Since: &info})))
				}
			})
		}
	}
}

// TestParentOfAnotherPast: a store that is as it was before a backup does not follow it, whether it has a replicated
// container, whose sequences are higher than its own, or has dropped that.
func TestParentOfAnotherPast(t *testing.T) {
	for _, what := range []string{"none", "replicated", "dropped"} {
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, read-only %t", what, readOnly), func(t *testing.T) {
				ctx := t.Context()
				mem := vfs.NewMem()
				opts := replicaOptions(mem, time.Minute)
				db, own := openStore(t, opts)
				upsert(t, own, "1", 50)
				if what != "none" {
					c, err := db.CreateContainer(ctx, "docs", evictDef)
					must(t, err)
					for i := uint64(1); i <= 100; i++ {
						must(t, applyItem(c, i, "a", nil))
					}
				}
				must(t, db.Close())
				before := mem.Clone()
				db, own = openStore(t, opts)
				upsert(t, own, "2", 50)
				if what != "none" {
					c, err := db.Container("docs")
					must(t, err)
					must(t, applyItem(c, 101, "a", nil))
				}
				info, err := db.Backup(ctx, io.Discard, nil)
				must(t, err)
				o := *opts
				o.fs = before
				if what == "dropped" {
					db, err = Open(ctx, "mem", &o)
					must(t, err)
					must(t, errors.Join(db.DropContainer(ctx, "docs"), db.Close()))
				}
				o.ReadOnly = readOnly
				db, err = Open(ctx, "mem", &o)
				must(t, err)
				defer db.Close()
				if _, err = db.Backup(ctx, io.Discard, &BackupOptions{Since: &info}); !errors.Is(err, ErrWrongParent) {
					t.Error(err)
				}
			})
		}
	}
}

// TestTimesOfWrongClock: a backup and a split that are made by a clock beyond the year 9999 say the last time that there is.
func TestTimesOfWrongClock(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.clock = func() time.Time { return time.Date(12_000, 1, 1, 0, 0, 0, 0, time.UTC) }
	db, c := openStore(t, opts)
	for _, id := range []string{"1", "2"} {
		must(t, second(c.Upsert(t.Context(), smallDocument(id, id, 50), nil)))
	}
	var stream bytes.Buffer
	info, err := db.Backup(t.Context(), &stream, nil)
	must(t, err)
	must(t, second(json.Marshal(info)))
	if ids := restoredItems(t, opts, stream.Bytes()); info.Time.Year() != 9999 || len(ids) != 2 {
		t.Errorf("made at %v, items %v", info.Time, ids)
	}
	job, err := c.Split(t.Context(), c.Partitions()[0].ID, nil)
	must(t, err)
	must(t, job.Wait(t.Context()))
	must(t, second(json.Marshal(c.History())))
}
