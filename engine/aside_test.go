package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// spoil changes a file of a closed store; nil removes it.
func (w *damagedWriter) spoil(name string, change func(data []byte) []byte) {
	w.t.Helper()
	data, err := w.mem.ReadFile(name)
	must(w.t, err)
	if data = change(data); data == nil {
		must(w.t, w.mem.Remove(name))
		return
	}
	must(w.t, w.mem.WriteFile(name, data))
}

// spoilings are ways to damage a file so that it cannot be opened.
var spoilings = []struct {
	name   string
	change func(data []byte) []byte
}{
	{"flipped head", func(b []byte) []byte { b[5] ^= 1; return b }},
	{"flipped foot", func(b []byte) []byte { b[len(b)-9] ^= 1; return b }},
	{"zeroed sector", func(b []byte) []byte { clear(b[max(0, len(b)-512):]); return b }},
	{"junk behind", func(b []byte) []byte { return append(b, "junk"...) }},
	{"doubled", func(b []byte) []byte { return append(b, b...) }},
	{"shortened", func(b []byte) []byte { return b[:len(b)/2] }},
	{"empty", func(b []byte) []byte { return b[:0:0] }},
	{"removed", func([]byte) []byte { return nil }},
}

func (w *damagedWriter) manifestOf(name string) string {
	w.t.Helper()
	dir := w.container(name).routing.Load().parts[0].Dir
	newest := ""
	for _, file := range w.mem.Names() {
		if _, ok := manifest.ParseName(path.Base(file)); ok && path.Dir(file) == dir {
			newest = max(newest, file)
		}
	}
	return newest
}

// tell requires that Stats names damage in a partition of a container alone, with its
// file.
func (w *damagedWriter) tell(container, file string) {
	w.t.Helper()
	all := w.db.Stats().Damage
	found := false
	for _, d := range all {
		if d.Container != container || d.Err == nil {
			w.t.Fatalf("Stats names %+v", d)
		}
		found = found || strings.HasSuffix(d.File, file) && d.Aside
	}
	if !found {
		w.t.Fatalf("Stats does not name %s: %+v", file, all)
	}
}

// TestFileSetAside damages a segment file so that it cannot be opened. All but what
// needs it goes on; the store can be told to refuse.
func TestFileSetAside(t *testing.T) {
	t.Parallel()
	for _, how := range spoilings {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newDamagedWriter(t)
			w.write("a", 4) // in the log only
			files := w.segments("a")
			name := files[len(files)/2]
			must(w.t, w.db.Close())
			w.spoil(name, how.change)
			w.opts.RefuseDamaged = true
			if _, err := Open(ctx, "damaged", w.opts); !lsm.Unreadable(err) {
				t.Fatalf("RefuseDamaged: %v", err)
			}
			w.opts.RefuseDamaged = false
			before := w.mem.Clone()
			w.opts.ReadOnly = true
			w.open()
			w.tell("a", path.Base(name))
			lost := w.check("a")
			w.healthy("b")
			if lost == 0 || lost == damagedDocs {
				t.Errorf("%d documents cannot be read", lost)
			}
			must(w.t, w.db.Close())
			if !maps.Equal(filesOf(t, before), filesOf(t, w.mem)) {
				t.Error("a ReadOnly open changed files")
			}
			w.opts.ReadOnly = false
			w.open()
			w.tell("a", path.Base(name))
			w.write("a", 3)
			w.write("b", 3)
			must(w.t, w.db.Flush(ctx))
			for range tiers.MaxRuns + 2 {
				w.write("a", 7)
				must(w.t, w.db.Flush(ctx))
				w.merge("a")
			}
			if n := w.check("a"); n >= lost {
				t.Errorf("%d documents cannot be read after many were written anew, %d before", n, lost)
			}
			lost = w.check("a")
			c := w.container("a")
			job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
			must(w.t, err)
			must(w.t, job.Wait(ctx))
			w.settle()
			w.reopen()
			if n := w.check("a"); n > lost {
				t.Errorf("%d documents cannot be read after a split, %d before", n, lost)
			}
			c = w.container("a")
			job, err = c.Merge(ctx, c.Partitions()[0].ID, c.Partitions()[1].ID)
			must(w.t, err)
			must(w.t, job.Wait(ctx))
			w.settle()
			w.tell("a", path.Base(name))
			w.write("a", 1)
			w.reopen()
			for i := range damagedDocs {
				key, id := damagedDocID(i)
				if _, err := w.container("a").Read(ctx, key, id); err != nil {
					t.Fatalf("document %s, written since: %v", id, err)
				}
			}
			w.healthy("b")
		})
	}
}

// TestSwappedFiles gives two segment files each other's name.
func TestSwappedFiles(t *testing.T) {
	w := newDamagedWriter(t)
	files := w.segments("a")
	must(w.t, w.db.Close())
	one, err := w.mem.ReadFile(files[0])
	must(w.t, err)
	two, err := w.mem.ReadFile(files[1])
	must(w.t, err)
	must(w.t, w.mem.WriteFile(files[0], two))
	must(w.t, w.mem.WriteFile(files[1], one))
	w.open()
	w.tell("a", path.Base(files[0]))
	w.tell("a", path.Base(files[1]))
	w.check("a")
	w.healthy("b")
}

// TestPartitionSetAside damages the manifest of a partition. The partition is neither
// read nor written, and keeps what it has on disk, the records in the log included;
// everything else goes on.
func TestPartitionSetAside(t *testing.T) {
	t.Parallel()
	for _, how := range spoilings {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newDamagedWriter(t)
			w.write("a", 4) // in the log only
			name := w.manifestOf("a")
			must(w.t, w.db.Close())
			good, err := w.mem.ReadFile(name)
			must(w.t, err)
			w.spoil(name, how.change)
			w.opts.RefuseDamaged = true
			if _, err := Open(ctx, "damaged", w.opts); !lsm.Unreadable(err) {
				t.Fatalf("RefuseDamaged: %v", err)
			}
			w.opts.RefuseDamaged = false
			w.open()
			if all := w.db.Stats().Damage; len(all) != 1 || !all[0].Whole || all[0].Container != "a" {
				t.Fatalf("Stats names %+v", all)
			}
			if n := w.check("a"); n != damagedDocs {
				t.Errorf("%d documents read", damagedDocs-n)
			}
			file := path.Base(name)
			if how.name == "removed" {
				file = "MANIFEST-*"
			}
			w.tell("a", file)
			for _, from := range []ChangePosition{FromStart(), FromNow()} {
				n := 0
				for _, err := range w.container("a").Changes(ctx, AllPartitions(), from, nil) {
					if n++; !lsm.Unreadable(err) || !strings.Contains(err.Error(), file) {
						t.Errorf("changes from %v: %v", from, err)
					}
				}
				if n != 1 {
					t.Errorf("changes from %v: %d pairs, not one error", from, n)
				}
			}
			if _, err := w.container("a").Read(ctx, StringKey("1"), "1"); !lsm.Unreadable(err) || !strings.Contains(err.Error(), file) {
				t.Errorf("a read: %v", err)
			}
			if _, err := w.container("a").Upsert(ctx, []byte(`{"id":"1","k":"1"}`), nil); !lsm.Unreadable(err) {
				t.Fatalf("a write: %v", err)
			}
			c := w.container("a")
			job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
			if err == nil {
				err = job.Wait(ctx)
			}
			if !lsm.Unreadable(err) {
				t.Errorf("a split: %v", err)
			}
			for range 3 {
				for range 3 {
					w.write("b", 1)
					must(w.t, w.db.Flush(ctx))
				}
				w.settle()
				must(w.t, w.db.retention.Hold())
				w.reopen()
				w.healthy("b")
			}
			// Who has a copy of the manifest finds all there was.
			must(w.t, w.db.Close())
			must(w.t, w.mem.WriteFile(name, good))
			w.open()
			w.healthy("a")
			w.healthy("b")
		})
	}
}

// TestReadOnlyOfMuchDamage opens a store with a damaged segment file and a damaged log:
// it is refused, and not looked at for ever.
func TestReadOnlyOfMuchDamage(t *testing.T) {
	w := newDamagedWriter(t)
	w.write("a", 2)
	name := w.segments("a")[0]
	must(w.t, w.db.Close())
	w.spoil(name, func(b []byte) []byte { return b[:len(b)/2] })
	for _, file := range w.mem.Names() {
		if path.Dir(file) == manifest.LogDir {
			w.spoil(file, func([]byte) []byte { return nil })
		}
	}
	w.opts.ReadOnly = true
	if _, err := Open(context.Background(), "damaged", w.opts); !lsm.Unreadable(err) {
		t.Fatalf("open: %v", err)
	}
}

// TestJoinedAside splits a partition within a file that cannot be opened, opens the store
// again, and joins the two halves of the file.
func TestJoinedAside(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, how := range []string{"merge", "move"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newDamagedWriter(t)
			files := w.segments("a")
			name := files[len(files)/2]
			must(w.t, w.db.Close())
			w.spoil(name, func(b []byte) []byte { return b[:len(b)/2] })
			w.open()
			c := w.container("a")
			var at []string
			for i := range damagedDocs {
				key, id := damagedDocID(i)
				if _, err := c.Read(ctx, key, id); err != nil {
					epk := partmap.HashEncoded(key.Encoded())
					at = append(at, epk.String())
				}
			}
			slices.Sort(at)
			at = slices.Compact(at)
			if len(at) < 4 {
				t.Fatalf("%d keys lie in the file", len(at))
			}
			reshape := func(job *ReshapeJob, err error) {
				t.Helper()
				must(w.t, err)
				must(w.t, job.Wait(ctx))
				w.settle()
			}
			reshape(c.Split(ctx, c.Partitions()[0].ID, &SplitOptions{At: at[len(at)/2]}))
			w.check("a")
			w.reopen()
			w.check("a")
			c = w.container("a")
			parts := c.Partitions()
			if how == "merge" {
				reshape(c.Merge(ctx, parts[0].ID, parts[1].ID))
			} else {
				reshape(c.MoveBoundary(ctx, parts[0].ID, parts[1].ID, at[len(at)/2+1]))
			}
			for range 2 {
				if n := w.check("a"); n == 0 {
					t.Error("the damage is gone")
				}
				w.partly("a")
				w.write("a", 7)
				must(w.t, w.db.Flush(ctx))
				if err := w.db.Compact(ctx); err != nil {
					w.named(err)
				}
				w.check("a")
				w.partly("a")
				w.reopen()
			}
			w.write("a", 1)
			must(w.t, w.db.Flush(ctx))
			w.check("a")
			w.healthy("b")
		})
	}
}

// TestOneLinkAside removes one of the two names of a file that two partitions share, and
// merges the partitions: the file has the name of the other one.
func TestOneLinkAside(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for gone := range 2 {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			t.Parallel()
			w := newDamagedWriter(t)
			c := w.container("a")
			files := c.routing.Load().parts[0].Version.Load().Runs[0].Files
			key := files[len(files)/2].Properties().Max
			at, err := partmap.EPKFromBytes(key.EPK)
			must(w.t, err)
			job, err := c.Split(ctx, c.Partitions()[0].ID, &SplitOptions{At: at.String()})
			must(w.t, err)
			must(w.t, job.Wait(ctx))
			of := make(map[string][]string)
			for _, name := range w.segments("a") {
				of[path.Base(name)] = append(of[path.Base(name)], name)
			}
			must(w.t, w.db.Close())
			shared := 0
			for _, names := range of {
				if len(names) == 2 {
					must(w.t, w.mem.Remove(names[gone]))
					shared++
				}
			}
			if shared == 0 {
				t.Fatal("no file is shared")
			}
			w.open()
			if n := w.check("a"); n == 0 {
				t.Fatal("no document is damaged")
			}
			c = w.container("a")
			job, err = c.Merge(ctx, c.Partitions()[0].ID, c.Partitions()[1].ID)
			must(w.t, err)
			must(w.t, job.Wait(ctx))
			w.check("a")
			w.partly("a")
			w.reopen()
			w.healthy("a")
		})
	}
}

// partly requires that a scan of a container, in either direction of one logical partition
// and of all, ends with an error that names damage, or shows all that was written.
func (w *damagedWriter) partly(name string) {
	w.t.Helper()
	want := make(map[PartitionKey]int)
	for i := range damagedDocs {
		key, _ := damagedDocID(i)
		want[key]++
	}
	c := w.container(name)
	for key, most := range want {
		for _, reverse := range []bool{false, true} {
			n := 0
			for _, err := range c.Scan(context.Background(), key, IDRange{}, &ScanOptions{Reverse: reverse}) {
				if n++; err != nil {
					w.named(err)
					n = most
				}
			}
			if n != most {
				w.t.Fatalf("%d documents of %v, %d were written (reverse: %v)", n, key, most, reverse)
			}
		}
	}
	n := 0
	for _, err := range c.ScanAll(context.Background(), nil) {
		if n++; err != nil {
			w.named(err)
			n = damagedDocs
		}
	}
	if n != damagedDocs {
		w.t.Fatalf("%d documents, %d were written", n, damagedDocs)
	}
}

// TestSplitOfPartitionAside: a split of a partition that is set aside is given up, and nothing waits for it.
func TestSplitOfPartitionAside(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	p := c.routing.Load().parts[0]
	p.Lost = errInjected
	job := p.queueSplit(func(j *ReshapeJob) { j.midpoint = true })
	if err := job.Wait(t.Context()); !errors.Is(err, errInjected) || p.queued.Load() != nil {
		t.Errorf("%v, queued still: %v", err, p.queued.Load() != nil)
	}
	must(t, c.SetThroughput(t.Context(), 3*10_000))
	if c.queueSplits(); p.queued.Load() != nil || len(c.Partitions()) < 3 {
		t.Errorf("%d partitions", len(c.Partitions()))
	}
}

// TestQueueSplitOnce: a split that is not queued, since another one is, has ended.
func TestQueueSplitOnce(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	p := c.routing.Load().parts[0]
	open := 0
	db.opts.env = &testenv.Env{Watch: func(testenv.Store, string) func() func() {
		open++
		return func() func() { return func() { open-- } }
	}}
	if j := p.queueSplit(func(*ReshapeJob) { p.queued.Store(new(ReshapeJob)) }); j != nil || open != 0 {
		t.Errorf("queued: %v; %d jobs have not ended", j != nil, open)
	}
	db.opts.env = nil
	p.queued.Store(nil)
}

// TestEntriesOfPartitionAside: a partition of a replicated container whose manifest is damaged does not say that no entry was
// applied to it.
func TestEntriesOfPartitionAside(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	db, c, err := evictStore(t, mem)
	must(t, err)
	must(t, applyItem(c, 1, "k", nil))
	must(t, db.Flush(ctx))
	dir := c.routing.Load().parts[0].Dir
	must(t, db.Close())
	for _, name := range mem.Names() {
		if _, ok := manifest.ParseName(path.Base(name)); ok && path.Dir(name) == dir {
			must(t, mem.WriteFile(name, []byte("damaged")))
		}
	}
	db, c, err = evictStore(t, mem)
	must(t, err)
	defer db.Close()
	id := c.Partitions()[0].ID
	for what, err := range map[string]error{
		"AppliedIndex": second(c.AppliedIndex(id)), "AppliedTTL": second(c.AppliedTTL(id)),
		"DurableIndex": second(c.DurableIndex(id)), "FlushPartition": second(c.FlushPartition(ctx, id)),
	} {
		if !lsm.Unreadable(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
