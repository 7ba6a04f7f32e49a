package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// splitStore is a small store in which jobs are carried out at once.
type splitStore struct {
	t    *testing.T
	mem  *vfs.Mem
	opts *Options
	db   *DB
	c    *Container
	docs map[itemID]string // what must be found
}

func newSplitStore(t *testing.T, def ContainerDef, change func(*Options)) *splitStore {
	s := &splitStore{t: t, mem: vfs.NewMem(), docs: make(map[itemID]string)}
	s.opts = testOptions(s.mem)
	if change != nil {
		change(s.opts)
	}
	s.open()
	t.Cleanup(func() { s.db.Close() })
	var err error
	s.c, err = s.db.CreateContainer(context.Background(), "c", def)
	must(s.t, err)
	return s
}

func (s *splitStore) open() {
	s.t.Helper()
	db, err := Open(context.Background(), "split", s.opts)
	must(s.t, err)
	s.db = db
	s.c, _ = db.Container("c")
}

// reopen opens what the end of the process leaves, or a power cut.
func (s *splitStore) reopen(mem *vfs.Mem) {
	s.t.Helper()
	s.db.Close()
	s.mem, s.opts.fs = mem, mem
	s.open()
}

func (s *splitStore) upsert(key PartitionKey, members, id, text string) {
	s.t.Helper()
	doc := fmt.Sprintf(`{"id":%q%s,"v":%q}`, id, members, text)
	_, err := s.c.Upsert(context.Background(), []byte(doc), nil)
	must(s.t, err)
	s.docs[itemID{"c", key, id}] = doc
}

// put writes an item of the logical partition k<n>.
func (s *splitStore) put(n int, id, text string) {
	s.t.Helper()
	k := fmt.Sprintf("k%d", n)
	s.upsert(StringKey(k), fmt.Sprintf(`,"k":%q`, k), id, text)
}

func (s *splitStore) split(i int, o *SplitOptions) ReshapeProgress {
	s.t.Helper()
	job, err := s.c.Split(context.Background(), s.ids()[i], o)
	must(s.t, err)
	must(s.t, job.Wait(context.Background()))
	return job.Progress()
}

func (s *splitStore) merge(i int) {
	s.t.Helper()
	ids := s.ids()
	job, err := s.c.Merge(context.Background(), ids[i], ids[i+1])
	must(s.t, err)
	must(s.t, job.Wait(context.Background()))
}

func (s *splitStore) move(i int, at string) {
	s.t.Helper()
	ids := s.ids()
	job, err := s.c.MoveBoundary(context.Background(), ids[i], ids[i+1], at)
	must(s.t, err)
	must(s.t, job.Wait(context.Background()))
}

func (s *splitStore) ids() (ids []PartitionID) {
	for _, p := range s.c.Partitions() {
		ids = append(ids, p.ID)
	}
	return ids
}

// check compares everything that is found with what must be, forwards and in
// reverse, and verifies the store.
func (s *splitStore) check() {
	s.t.Helper()
	for _, reverse := range []bool{false, true} {
		n := 0
		for it, err := range s.c.ScanAll(context.Background(), &ScanOptions{Reverse: reverse}) {
			must(s.t, err)
			n++
			if want := s.docs[itemID{"c", it.Key, it.ID}]; want != string(it.Body) {
				s.t.Fatalf("scan: %v/%s is %s, want %s", it.Key, it.ID, it.Body, want)
			}
		}
		if n != len(s.docs) {
			s.t.Fatalf("scan, reverse %v: %d items, want %d", reverse, n, len(s.docs))
		}
	}
	for id, want := range s.docs {
		it, err := s.c.Read(context.Background(), id.key, id.id)
		if err != nil || string(it.Body) != want {
			s.t.Fatalf("read %v/%s: %s, %v; want %s", id.key, id.id, it.Body, err, want)
		}
	}
	logical := make(map[PartitionKey]bool)
	for l, err := range s.c.LogicalPartitions(context.Background()) {
		must(s.t, err)
		key, err := l.Key()
		must(s.t, err)
		if epk := key.EPK(); logical[key] || s.c.partition(l.Partition) == nil || !s.c.partition(l.Partition).Range.Contains(&epk) {
			s.t.Fatalf("logical partition %v in partition %d, seen before: %v", key, l.Partition, logical[key])
		}
		logical[key] = true
	}
	for id := range s.docs {
		if !logical[id.key] {
			s.t.Fatalf("logical partition %v is not shown", id.key)
		}
	}
	end := partmap.MinEPK().String()
	for _, p := range s.c.Partitions() {
		if p.Min != end {
			s.t.Fatalf("partition %d begins at %q, the one before it ends at %q", p.ID, p.Min, end)
		}
		end = p.Max
	}
	s.verify()
}

func (s *splitStore) verify() {
	s.t.Helper()
	checkVerified(s.t, s.db)
}

// TestSplit splits a partition with files, a frozen and an active memtable, and
// goes on with it in every way.
func TestSplit(t *testing.T) {
	for _, name := range []string{"inherit", "keep"} {
		t.Run(name, func(t *testing.T) {
			s := newSplitStore(t, byK, func(o *Options) { o.keepInheritance = name == "keep" })
			for i := range 300 {
				s.put(i%40, fmt.Sprintf("a%d", i), "first")
			}
			must(s.t, s.db.Flush(context.Background()))
			for i := range 300 {
				s.put(i%40, fmt.Sprintf("a%d", i/2), "second")
			}
			p := s.db.partitions()[0]
			p.Freeze()
			for i := range 100 {
				s.put(i%40, fmt.Sprintf("b%d", i), "third")
			}
			progress := s.split(0, nil)
			if n := len(s.ids()); n != 2 {
				t.Fatalf("%d partitions", n)
			}
			if progress.CopiedBytes != 0 || progress.At == "" || !slices.Equal(progress.Children, s.ids()) {
				t.Errorf("progress %+v", progress)
			}
			if l, r := progress.LeftBytes, progress.RightBytes; min(l, r)*100 < max(l, r)*85 {
				t.Errorf("cut into %d and %d bytes", l, r)
			}
			for _, info := range s.c.Partitions() {
				if info.Inherits != (name == "keep") || !slices.Equal(info.Parents, progress.Parents) {
					t.Errorf("partition %+v", info)
				}
			}
			s.check()
			s.reopen(s.mem.Kill())
			s.check()
			for i := range 200 {
				s.put(i%50, fmt.Sprintf("a%d", i), "fourth")
			}
			s.check()
			must(s.t, s.db.Flush(context.Background()))
			s.reopen(s.mem.Crash(vfs.CrashOptions{}))
			s.check()
			must(s.t, s.db.Compact(context.Background()))
			s.check()
			for i := range s.c.Partitions() {
				if s.db.partitions()[i].Inherited() != nil {
					t.Errorf("partition %d still inherits", i)
				}
			}
			s.split(1, nil)
			s.split(0, nil)
			s.check()
			s.merge(1)
			s.check()
			s.move(0, "")
			s.check()
			s.reopen(s.mem.Kill())
			s.check()
			must(s.t, s.db.Compact(context.Background()))
			s.check()
			for len(s.ids()) > 1 {
				s.merge(0)
			}
			s.check()
			must(s.t, s.db.Compact(context.Background()))
			s.check()
			names, err := s.mem.List("p")
			if err != nil || len(names) != 1 {
				t.Errorf("directories %v, %v", names, err)
			}
		})
	}
}

// TestDeletedStaysDeleted merges away in one half what the file shared with the
// other half still holds, and joins the halves.
func TestDeletedStaysDeleted(t *testing.T) {
	s := newSplitStore(t, byK, nil)
	for i := range 400 {
		s.put(i%40, fmt.Sprintf("a%d", i), "long enough to be something")
	}
	must(s.t, s.db.Flush(context.Background()))
	progress := s.split(0, nil)
	cut, err := partmap.ParseEPK(progress.At)
	must(s.t, err)
	for id := range s.docs {
		if epk := id.key.EPK(); epk.Compare(&cut) < 0 {
			must(s.t, s.c.Delete(context.Background(), id.key, id.id, nil))
			delete(s.docs, id)
		}
	}
	must(s.t, s.db.Flush(context.Background()))
	// All that the lower half holds is dropped, tombstones included.
	p := s.db.partitions()[0]
	for len(p.Version.Load().Runs) > 0 {
		if done, err := p.CompactBy(context.Background(), p.PickDead(context.Background())); err != nil || !done {
			t.Fatalf("merge: %v, %v", done, err)
		}
	}
	s.check()
	s.merge(0)
	s.check()
	s.reopen(s.mem.Kill())
	s.check()
	must(s.t, s.db.Compact(context.Background()))
	s.check()
}

// TestCutRefused asks for what is refused.
func TestCutRefused(t *testing.T) {
	s := newSplitStore(t, byK, nil)
	for i := range 50 {
		s.put(7, fmt.Sprint(i), "one logical partition")
	}
	refused := func(want RefusalReason, start func() (*ReshapeJob, error)) {
		t.Helper()
		job, err := start()
		must(s.t, err)
		err = job.Wait(context.Background())
		var refusal *Refusal
		if !errors.Is(err, ErrRefused) || !errors.As(err, &refusal) || refusal.Reason != want {
			t.Errorf("%v, want %v", err, want)
		}
		s.check()
	}
	ctx := context.Background()
	split := func() (*ReshapeJob, error) { return s.c.Split(ctx, s.ids()[0], nil) }
	refused(RefusedOneLogicalPartition, split)
	must(s.t, s.db.Flush(ctx))
	refused(RefusedOneLogicalPartition, split)
	refused(RefusedTooFine, func() (*ReshapeJob, error) {
		return s.c.Split(ctx, s.ids()[0], &SplitOptions{At: "0102030405060708090A0B0C0D0E0F1011"})
	})
	s.split(0, &SplitOptions{At: "1F"})
	refused(RefusedOutsideRange, func() (*ReshapeJob, error) { return s.c.Split(ctx, s.ids()[0], &SplitOptions{At: "1F"}) })
	refused(RefusedNotNeighbours, func() (*ReshapeJob, error) { return s.c.Merge(ctx, s.ids()[1], s.ids()[0]) })
	if _, err := s.c.Split(ctx, 99, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("split of no partition: %v", err)
	}
	if _, err := s.c.Split(ctx, s.ids()[0], &SplitOptions{At: "xyz"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("split at no boundary: %v", err)
	}
	names, err := s.mem.List("p")
	if err != nil || len(names) != 2 {
		t.Errorf("directories %v, %v", names, err)
	}
}

// TestSplitManySmall splits a partition with 10,000 logical partitions of one
// item, in memory and in files.
func TestSplitManySmall(t *testing.T) {
	s := newSplitStore(t, byK, func(o *Options) { o.memtableBytes = 1 << 20; o.Durability = Buffered })
	for i := range 10_000 {
		s.put(i, "x", "")
		if i == 6000 {
			must(s.t, s.db.Flush(context.Background()))
		}
	}
	progress := s.split(0, nil)
	if l, r := progress.LeftBytes, progress.RightBytes; min(l, r)*100 < max(l, r)*98 {
		t.Errorf("cut into %d and %d bytes", l, r)
	}
	s.check()
	for _, p := range s.c.Partitions() {
		if p.Items < 4800 || p.Items > 5200 {
			t.Errorf("partition %d: %d items", p.ID, p.Items)
		}
	}
}

// TestSplitHierarchical cuts inside a first level.
func TestSplitHierarchical(t *testing.T) {
	s := newSplitStore(t, ContainerDef{PartitionKey: []string{"/k", "/l"}}, nil)
	for i := range 400 {
		s.upsert(JoinKeys(StringKey("only"), NumberKey(float64(i%100))), fmt.Sprintf(`,"k":"only","l":%d`, i%100), fmt.Sprint(i), "text")
		if i == 200 {
			must(s.t, s.db.Flush(context.Background()))
		}
	}
	progress := s.split(0, nil)
	cut, err := partmap.ParseEPK(progress.At)
	must(s.t, err)
	if cut.Levels() != 2 {
		t.Errorf("cut at %s", progress.At)
	}
	if l, r := progress.LeftBytes, progress.RightBytes; min(l, r)*100 < max(l, r)*90 {
		t.Errorf("cut into %d and %d bytes", l, r)
	}
	s.check()
	s.reopen(s.mem.Kill())
	s.check()
	s.split(0, nil)
	s.split(2, nil)
	s.check()
	must(s.t, s.db.Compact(context.Background()))
	s.check()
}

// TestEmptySplit splits a partition that holds nothing in the middle.
func TestEmptySplit(t *testing.T) {
	s := newSplitStore(t, byK, nil)
	s.split(0, nil)
	if at := s.c.Partitions()[1].Min; at[:4] != "1FFF" {
		t.Errorf("cut at %s", at)
	}
	s.split(0, nil)
	s.reopen(s.mem.Kill())
	for i := range 60 {
		s.put(i, "x", "")
	}
	s.check()
	s.merge(0)
	s.check()
}

// TestSplitCopies splits where no links can be made.
func TestSplitCopies(t *testing.T) {
	for _, refusal := range []error{syscall.EMLINK, syscall.EXDEV, syscall.EPERM} {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		s := newSplitStore(t, byK, func(o *Options) { o.fs = faulty })
		s.mem = mem
		faulty.SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpLink {
				return refusal
			}
			return nil
		})
		for i := range 500 {
			s.put(i%40, fmt.Sprint(i), "text")
		}
		must(s.t, s.db.Flush(context.Background()))
		if p := s.split(0, nil); p.CopiedBytes == 0 {
			t.Errorf("%v: nothing was copied", refusal)
		}
		s.check()
		s.merge(0)
		s.check()
		s.split(0, nil)
		s.reopen(mem.Crash(vfs.CrashOptions{}))
		s.check()
		must(s.t, s.db.Compact(context.Background()))
		s.check()
	}
}

// TestTrim has files rewritten of which much is foreign, until no file is
// shared.
func TestTrim(t *testing.T) {
	s := newSplitStore(t, byK, func(o *Options) { o.FileBytes = 1 << 20 })
	for i := range 2000 {
		s.put(i%100, fmt.Sprint(i), fmt.Sprintf("a text that is not the same in all documents: %d", i*7919))
	}
	must(s.t, s.db.Flush(context.Background()))
	must(s.t, s.db.Compact(context.Background()))
	s.split(0, nil)
	shared := func() (n int64) {
		for _, p := range s.c.Partitions() {
			n += p.ForeignBytes
		}
		return n
	}
	if shared() == 0 {
		t.Error("nothing is shared after a split")
	}
	must(s.t, s.db.Compact(context.Background()))
	if n := shared(); n != 0 {
		t.Errorf("%d bytes are foreign after all", n)
	}
	if s.db.Stats().Trims == 0 {
		t.Error("nothing was trimmed")
	}
	s.check()
	for _, p := range s.db.partitions() {
		for _, n := range p.Listed() {
			info, err := s.mem.Stat(fmt.Sprintf("%s/%010d.seg", p.Dir, n))
			if err != nil || info.Links != 1 {
				t.Errorf("partition %d, file %d: %+v, %v", p.ID, n, info, err)
			}
		}
	}
	s.reopen(s.mem.Kill())
	s.check()
}

// TestFileTwice has a partition refer to one file in two runs, and rewrites one
// reference after the other.
func TestFileTwice(t *testing.T) {
	s := newSplitStore(t, byK, nil)
	cut, err := partmap.ParseEPK("1F")
	must(s.t, err)
	put := func(text string, lowerOnly bool) {
		for i := range 200 {
			epk := StringKey(fmt.Sprintf("k%d", i%40)).EPK()
			if lower := epk.Compare(&cut) < 0; lower || !lowerOnly {
				s.put(i%40, fmt.Sprint(i), text)
			}
		}
		must(s.t, s.db.Flush(context.Background()))
	}
	put("only in the lower half, and old", true)
	put("everywhere", false)
	s.split(0, &SplitOptions{At: "1F"})
	s.merge(0)
	twice := func() bool {
		list := s.db.partitions()[0].Listed()
		slices.Sort(list)
		return len(slices.Compact(slices.Clone(list))) < len(list)
	}
	if !twice() {
		t.Fatal("no file has two references")
	}
	s.check()
	for trims := 0; ; trims++ {
		done, err := s.db.partitions()[0].TrimOne(context.Background(), true)
		must(s.t, err)
		if !done {
			if trims != 2 {
				t.Errorf("%d files trimmed", trims)
			}
			break
		}
		s.check()
		s.reopen(s.mem.Kill())
		s.check()
	}
	if twice() {
		t.Error("a file has two references after all were trimmed")
	}
	must(s.t, s.db.Compact(context.Background()))
	s.check()
}

// TestTrimAfterRefusal has a trim give way, in Compact, to a split that is refused
// then: Compact does not return before the rest is trimmed.
func TestTrimAfterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *splitStore
		var queued *ReshapeJob
		s = newSplitStore(t, byK, func(o *Options) {
			o.Events = &EventListener{Compacted: func(e CompactionEvent) {
				p := s.db.partitions()[0]
				if e.Trim && e.Partition == p.ID && queued == nil {
					// There are more files to trim. Nobody carries out the job yet.
					queued = s.c.newJob(ReshapeSplit, "", p.ID)
					queued.auto = true
					p.queued.Store(queued)
				}
			}}
		})
		put := func(from, n int) {
			for i := range n {
				s.put(i%2, fmt.Sprint(from+i), "text")
			}
			must(s.t, s.db.Flush(t.Context()))
		}
		put(0, 2000)
		must(s.t, s.db.Compact(t.Context()))
		put(2000, 50)   // so few that Compact leaves them a run of their own
		s.split(0, nil) // each has one key now: it cannot be split again
		settled := make(chan error, 1)
		go func() { settled <- s.db.Compact(t.Context()) }()
		synctest.Wait() // for Compact to wait for the job
		if queued == nil {
			t.Fatal("nothing was trimmed")
		}
		s.db.run(queued)
		must(s.t, <-settled)
		if !errors.Is(queued.err, ErrRefused) {
			t.Fatalf("the split was not refused: %v", queued.err)
		}
		for _, p := range s.db.partitions() {
			if done, err := p.TrimOne(t.Context(), true); done || err != nil {
				t.Errorf("partition %d: a trim was left: %v, %v", p.ID, done, err)
			}
		}
		s.check()
		s.db.Close()
	})
}

// TestSharedDamage damages a file that two partitions share: it is found once,
// with both, and reads of either name the file as theirs.
func TestSharedDamage(t *testing.T) {
	for _, reopened := range []bool{false, true} {
		s := newSplitStore(t, byK, func(o *Options) { o.ReadMode = ReadPositioned })
		for i := range 300 {
			s.put(i%40, fmt.Sprint(i), "text")
		}
		must(s.t, s.db.Flush(context.Background()))
		s.split(0, nil)
		if reopened {
			s.reopen(s.mem.Kill())
		}
		shared := s.db.partitions()[0].Version.Load().Runs[0].Files[0].Reader
		groups := shared.Properties().Sections[0]
		f, err := s.mem.OpenWrite(s.db.partitions()[1].Version.Load().Runs[0].Files[0].Name)
		must(s.t, err)
		_, err = f.WriteAt(make([]byte, groups.Len/2+groups.Len/4), groups.Off+groups.Len/8)
		must(s.t, err)
		must(s.t, f.Close())
		found := 0
		for finding, err := range s.db.Verify(context.Background()) {
			must(s.t, err)
			found++
			other := fmt.Sprintf("shared with partition %d", s.ids()[1])
			if !strings.Contains(finding.File, fmt.Sprintf("p/%06d/", s.ids()[0])) || !strings.Contains(finding.What, other) {
				t.Errorf("finding %v", finding)
			}
		}
		if found == 0 {
			t.Error("the damage is not found")
		}
		failed := make(map[PartitionID]bool)
		for id := range s.docs {
			p := partitionOf(s.c, id.key)
			var corrupt *CorruptionError
			if _, err := s.c.Read(context.Background(), id.key, id.id); errors.As(err, &corrupt) {
				failed[p] = true
				if !strings.Contains(corrupt.File, fmt.Sprintf("p/%06d/", p)) {
					t.Errorf("read in partition %d: %v", p, err)
				}
			}
		}
		if len(failed) != 2 {
			t.Errorf("reads failed in partitions %v", failed)
		}
	}
}

// TestHistory looks at what the store manifest remembers of reshapes, also
// after a crash and without the container.
func TestHistory(t *testing.T) {
	s := newSplitStore(t, byK, nil)
	for i := range 100 {
		s.put(i%20, fmt.Sprint(i), "text")
	}
	s.split(0, &SplitOptions{At: "1F"})
	s.move(0, "20")
	job := s.c.newJob(ReshapeMerge, "", s.ids()...)
	job.cancel()
	s.db.submit(job)
	s.merge(0)
	s.reopen(s.mem.Crash(vfs.CrashOptions{}))
	var got []string
	for _, r := range s.db.storeManifest.state.History {
		text := r.Kind
		for _, p := range r.Parents {
			text += fmt.Sprintf(" %d[%X %X]", p.ID, []byte(p.Min), []byte(p.Max))
		}
		got = append(got, fmt.Sprint(text, " -> ", r.Children))
	}
	want := []string{"split 1[ FF] -> [2 3]", "move 2[ 1F] 3[1F FF] -> [4 5]", "merge 4[ 20] 5[20 FF] -> [6]"}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], strings.Repeat("00", 15), "")
	}
	if !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
	must(s.t, s.db.DropContainer(context.Background(), "c"))
	if h := s.db.storeManifest.state.History; len(h) != 0 {
		t.Errorf("history %v of no container", h)
	}
}
