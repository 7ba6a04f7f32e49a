package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// failingStory makes calls of every class.
var failingStory = story{"all classes", func(s *stage) {
	s.opts.ReadMode = ReadPositioned // reads are calls
	s.start(2)
	s.create("d", 1)
	s.put("c", 8, 400)
	s.flush()
	s.put("c", 8, 9_000) // over the end of a log file
	s.remove("c", 3)
	s.flush()
	s.split("c", 0)
	s.put("c", 8, 400)
	s.settle()
	s.mergeParts("c")
	s.settle()
	s.drop("d")
	s.put("c", 4, 100)
	if s.err == nil { // what has met an error is closed in the end, and may go on before
		s.close()
		s.open()
	}
	s.put("c", 4, 100)
	s.flush()
}}

// failure is a way in which calls of a class fail.
type failure struct {
	op     vfs.Op
	cause  syscall.Errno
	short  bool  // writes write a part
	sticky bool  // from then on
	n      int64 // the first that fails
}

func (f failure) String() string {
	return fmt.Sprintf("%v %d fails: %v, short %v, sticky %v", f.op, f.n, f.cause, f.short, f.sticky)
}

// TestFailingClasses makes calls of each class fail, once and from then on, for each
// reason that systems have. Callers get an error that says so by its type, and
// nothing that was acknowledged is lost. Where nothing is unknown after a failure that has
// passed, the store goes on, and the next open leaves nothing behind.
func TestFailingClasses(t *testing.T) {
	seed := newSeed(t)
	counted := vfs.NewFaulty(vfs.NewMem())
	if s := failingStory.play(t, counted); s.err != nil {
		t.Fatal(s.err)
	}
	for op := range vfs.OpLock + 1 {
		calls := counted.CallsOf(op)
		if calls == 0 {
			if op != vfs.OpMap { // for what is read as maps
				t.Errorf("no call of %v: the story reaches too little", op)
			}
			continue
		}
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			survivors := newSurvivors(t)
			for i, f := range []failure{
				{cause: syscall.EIO}, {cause: syscall.ENOSPC}, {cause: syscall.EMFILE}, {cause: syscall.ENOSPC, short: true},
				{cause: syscall.EIO, sticky: true}, {cause: syscall.ENOSPC, sticky: true}, {cause: syscall.EMFILE, sticky: true}, {cause: syscall.EIO, short: true, sticky: true},
			} {
				if f.short && op != vfs.OpWrite {
					continue
				}
				step := calls // one place of each
				if *fullFlag {
					step = 1
				} else if !testing.Short() && !raceEnabled {
					step = max(1, calls/3)
				}
				for f.op, f.n = op, 1+int64(seed+uint64(i)*7)%step; f.n <= calls; f.n += step {
					if err := f.play(t, survivors); err != nil {
						t.Errorf("%v: %v", f, err)
					}
				}
			}
		})
	}
}

// play plays the story with the failure.
func (f failure) play(t *testing.T, survivors *survivors) error {
	mem := vfs.NewMem()
	faulty := vfs.NewFaulty(mem)
	faulty.SetShortWrite(f.short)
	met, lost := int64(0), false
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op != f.op {
			return nil
		}
		if met++; met == f.n || f.sticky && met > f.n {
			lost = lost || c.Op == vfs.OpSync // a sync that failed may have lost what the kernel had
			return f.cause
		}
		return nil
	})
	var s *stage
	st := failingStory
	st.run = func(on *stage) {
		s = on
		failingStory.run(s)
		if s.err != nil && !f.sticky && s.db != nil {
			f.goOn(s)
		}
	}
	st.play(t, faulty)
	if met < f.n {
		return nil // an earlier failure of this class took another way
	}
	if s.err != nil && !f.typed(s.err) {
		return fmt.Errorf("an error of no type: %w", s.err)
	}
	for i, image := range []*vfs.Mem{mem.Kill(), mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})} {
		if err := survivors.check(s, image, i == 0 && !lost); err != nil {
			return fmt.Errorf("story ended with %v, image %d: %w", s.err, i, err)
		}
	}
	return leftBehind(mem)
}

// typed says whether an error tells by its type what failed.
func (f failure) typed(err error) bool {
	kinds := []error{ErrFailed, ErrOutcomeUnknown, ErrIO}
	switch f.cause {
	case syscall.ENOSPC:
		kinds = append(kinds, ErrDiskFull)
	case syscall.EMFILE:
		kinds = append(kinds, ErrResource)
	}
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

// goOn has a store that met a failure which has passed go on, unless something is
// unknown.
func (f failure) goOn(s *stage) {
	unknown := errors.Is(s.err, ErrOutcomeUnknown) || errors.Is(s.err, ErrFailed)
	if err := s.db.writable(); unknown || err != nil {
		if !unknown {
			s.err = fmt.Errorf("the store has failed after %v, which does not say so: %w", s.err, err)
		}
		return
	}
	for _, h := range s.o.parts {
		for len(h.writes) > 0 && h.writes[len(h.writes)-1].unknown { // it is known now: not written
			h.writes = h.writes[:len(h.writes)-1]
		}
	}
	met := s.err
	s.err = nil
	if !s.db.has("c") {
		s.create("c", 2)
	}
	s.put("c", 6, 200)
	s.flush()
	s.settle()
	if s.err == nil {
		s.must(s.o.check(s.db, func(h *history) int { return len(h.writes) }))
	}
	if s.err == nil {
		s.close()
		s.open()
	}
	if s.err != nil {
		s.t.Errorf("%v: after %v the store does not go on: %v", f, met, s.err)
	}
}

// leftBehind opens and closes a store, and looks for files that nothing names.
func leftBehind(mem *vfs.Mem) error {
	db, err := Open(context.Background(), "left", testOptions(mem))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	parts := db.partitions()
	if err := db.Close(); err != nil {
		return err
	}
	named := make(map[string]bool)
	for _, p := range parts {
		var files manifest.Files
		if err := manifest.NewDir(mem, p.Dir, manifest.PartitionKind).Load(&files); err != nil {
			return err
		}
		for _, r := range files.Runs {
			for _, file := range r.Files {
				named[path.Join(p.Dir, manifest.SegmentName(file.Number))] = true
			}
		}
	}
	for _, name := range mem.Names() {
		if strings.HasSuffix(name, manifest.TempSuffix) || strings.HasSuffix(name, ".seg") && !named[name] {
			return fmt.Errorf("%s is left behind", name)
		}
	}
	if dirs, err := mem.List(manifest.PartitionsDir); err != nil || len(dirs) != len(parts) {
		return fmt.Errorf("directories %v of %d partitions, %w", dirs, len(parts), err)
	}
	return nil
}

// TestOneFileFails: all calls on one segment file fail for good. Reads that need
// it say so; all else goes on, be it in its container, and once the file can be
// read again everything is there.
func TestOneFileFails(t *testing.T) {
	ctx := context.Background()
	for _, cause := range []error{syscall.EIO, syscall.EMFILE, syscall.ENOSPC} {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		opts := testOptions(faulty)
		opts.ReadMode = ReadPositioned
		s := &stage{t: t, opts: opts, o: newOracle()}
		s.open()
		defer func() { s.db.Close() }()
		s.create("c", 1)
		s.create("d", 1)
		s.put("c", 8, 200)
		s.put("d", 8, 200)
		s.flush()
		s.close()
		s.open() // what was flushed is in no cache any more
		must(t, s.err)
		c, err := s.db.Container("c")
		must(t, err)
		bad := c.routing.Load().parts[0].Version.Load().Runs[0].Files[0].Name
		faulty.SetHook(func(call vfs.Call) error {
			if call.Name == bad && call.Op != vfs.OpRemove && call.Op != vfs.OpLink {
				return cause
			}
			return nil
		})
		told := 0
		for i := range 8 {
			key, id, _ := storyDoc(rand.New(rand.NewPCG(1, 1)), i, 0)
			if _, err := c.Read(ctx, key, id); err != nil {
				if !(failure{cause: cause.(syscall.Errno)}).typed(err) {
					t.Errorf("%v: read: %v", cause, err)
				}
				told++
			}
		}
		if told == 0 {
			t.Errorf("%v: no read needs the file", cause)
		}
		s.put("c", 8, 100) // no condition: nothing is read
		s.put("d", 8, 300)
		s.flush()
		s.put("d", 3, 300)
		s.flush()
		s.split("d", 0)
		s.put("d", 8, 300)
		must(t, s.err)
		if err := s.db.writable(); err != nil {
			t.Errorf("%v: %v", cause, err)
		}
		faulty.SetHook(nil)
		must(t, s.o.clone().check(s.db, func(h *history) int { return len(h.writes) }))
		s.settle()
		s.close()
		s.open()
		must(t, s.err)
		must(t, s.o.check(s.db, func(h *history) int { return len(h.writes) }))
	}
}

// TestSnapshotOfFailedStore: a store that has failed serves snapshots, which show what was acknowledged
// and not what has failed, and hold nothing once they are closed.
func TestSnapshotOfFailedStore(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	db, c := openStore(t, testOptions(faulty), ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	keys := keyOfEachPartition(c)
	put := func(key PartitionKey, id string) error {
		return second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":%q,"k":%v}`, id, key), nil))
	}
	for _, key := range keys {
		must(t, put(key, "1"))
	}
	faulty.SetHook(func(call vfs.Call) error {
		if call.Op == vfs.OpSync {
			return syscall.EIO
		}
		return nil
	})
	if err := put(keys[1], "2"); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("a write that is not synced: %v", err)
	}
	s, err := c.Snapshot(t.Context())
	must(t, err)
	items, err := collectItems(s.ScanAll(t.Context(), nil))
	if err != nil || len(items) != len(keys) {
		t.Errorf("%d items, %v", len(items), err)
	}
	for _, key := range keys {
		must(t, second(s.Read(t.Context(), key, "1")))
	}
	if _, err := s.Read(t.Context(), keys[1], "2"); err != ErrNotFound {
		t.Errorf("the write that has failed: %v", err)
	}
	must(t, s.Close())
	if held := db.Stats().Holders; len(held) != 0 {
		t.Errorf("%v", held)
	}
}
