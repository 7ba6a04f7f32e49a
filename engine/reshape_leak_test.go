package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// handleFS counts the files that are open.
type handleFS struct {
	vfs.FS
	open atomic.Int64
}

func (h *handleFS) count(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	h.open.Add(1)
	return &handle{File: f, fs: h}, nil
}

func (h *handleFS) Create(name string) (vfs.File, error)    { return h.count(h.FS.Create(name)) }
func (h *handleFS) Open(name string) (vfs.File, error)      { return h.count(h.FS.Open(name)) }
func (h *handleFS) OpenWrite(name string) (vfs.File, error) { return h.count(h.FS.OpenWrite(name)) }

type handle struct {
	vfs.File
	fs     *handleFS
	closed atomic.Bool
}

func (h *handle) Close() error {
	if !h.closed.Swap(true) {
		h.fs.open.Add(-1)
	}
	return h.File.Close()
}

// TestReshapeLeaks has the disk full at each call of a split and of a merge of
// its halves: either is undone or carried through, another try succeeds, nothing
// is lost, and no file stays open and no memtable in use that nobody needs.
func TestReshapeLeaks(t *testing.T) {
	t.Parallel()
	for _, copies := range []bool{false, true} {
		failures := 0
		step := int64(lone(amount(1, 1, 3)))
		for n := 1 + int64(newSeed(t)%uint64(step)); ; n += step {
			handles := &handleFS{FS: vfs.NewMem()}
			faulty := vfs.NewFaulty(handles)
			s := newSplitStore(t, byK, func(o *Options) { o.fs = faulty })
			s.mem = handles.FS.(*vfs.Mem)
			if copies {
				faulty.SetHook(func(c vfs.Call) error {
					if c.Op == vfs.OpLink {
						return syscall.EMLINK
					}
					return nil
				})
			}
			for i := range 60 {
				s.put(i%20, fmt.Sprint(i), "in a file")
				if i == 25 {
					must(s.t, s.db.Flush(context.Background()))
				}
				if i == 40 { // frozen
					p := s.db.partitions()[0]
					p.Freeze()
				}
			}
			others := handles.open.Load() - readersOf(s.db) // of the log
			snapshot, err := s.c.Snapshot(context.Background())
			must(s.t, err)
			first := faulty.Calls()
			faulty.FailAt(first+n, syscall.ENOSPC, false)
			run := func(start func(ids []PartitionID) (*ReshapeJob, error)) error {
				job, err := start(s.ids())
				if err == nil {
					err = job.Wait(context.Background())
				}
				return err
			}
			split := func(ids []PartitionID) (*ReshapeJob, error) { return s.c.Split(context.Background(), ids[0], nil) }
			merge := func(ids []PartitionID) (*ReshapeJob, error) { return s.c.Merge(context.Background(), ids[0], ids[1]) }
			errs := []error{run(split)}
			if errs[0] == nil && s.db.writable() == nil {
				faulty.FailAt(0, nil, false)
				s.put(3, "between", "the split and the merge")
				faulty.FailAt(first+n, syscall.ENOSPC, false)
				errs = append(errs, run(merge))
			}
			reached := faulty.Calls() >= first+n
			faulty.FailAt(0, nil, false)
			for _, err := range errs {
				if err == nil {
					continue
				}
				failures++
				if !errors.Is(err, ErrDiskFull) && !errors.Is(err, ErrOutcomeUnknown) {
					t.Fatalf("copies %v, a full disk at call %d: %v", copies, n, err)
				}
			}
			if s.db.writable() == nil {
				if len(s.ids()) == 1 {
					must(s.t, run(split))
				}
				must(s.t, run(merge))
				s.check()
				must(s.t, snapshot.Close())
				must(s.t, s.db.Compact(context.Background()))
				s.db.env.Reclaim.Now()
				s.check()
				if used := s.db.env.Pool.Used(); used != 0 {
					t.Errorf("copies %v, a full disk at call %d: %d bytes of memtables in use that hold nothing", copies, n, used)
				}
				if open := handles.open.Load() - readersOf(s.db); open > others+1 { // a spare log file
					t.Errorf("copies %v, a full disk at call %d: %d files open that no partition has", copies, n, open-others)
				}
			}
			_ = s.db.Close()
			if open := handles.open.Load(); open != 0 {
				t.Errorf("copies %v, a full disk at call %d: %d files open after Close", copies, n, open)
			}
			if t.Failed() || !reached {
				break
			}
			s.reopen(s.mem.Crash(vfs.CrashOptions{}))
			s.check()
			s.db.Close()
		}
		if failures < 10/int(step) {
			t.Errorf("copies %v: %d failures: the test reached too little", copies, failures)
		}
	}
}

// readersOf counts the segment files that partitions have open.
func readersOf(db *DB) int64 {
	var readers []*segment.Reader
	for _, p := range db.partitions() {
		for f := range p.Version.Load().Files() {
			if !slices.Contains(readers, f.Reader) {
				readers = append(readers, f.Reader)
			}
		}
	}
	return int64(len(readers))
}
