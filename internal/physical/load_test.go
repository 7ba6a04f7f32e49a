package physical_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// TestLoad: a batch is shown once the log has it, in each of its partitions, and before the
// next one waits. What is durable is told batch by batch.
func TestLoad(t *testing.T) {
	ctx := context.Background()
	s := physicaltest.New(t)
	low, high := physicaltest.Halves()
	parts := []*physical.Partition{s.Partition(1, low), s.Partition(2, high)}
	calls := epoch.New()
	var told []physical.LoadProgress
	l := physical.Load{
		Env: &s.Env, Done: physical.LoadProgress{Committed: 10}, Tell: func(p physical.LoadProgress) { told = append(told, p) },
		Enter: func(ctx context.Context) (epoch.Guard, error) { return calls.Enter(), ctx.Err() },
	}
	s.OK(l.Commit(ctx)) // an empty batch
	last := make([]physical.Record, len(parts))
	for i := range int64(6) {
		at := i % 2
		last[at] = s.Write(parts[at], physicaltest.KeyIn(parts[at].Range), fmt.Sprint(i), true)
		l.Note(parts[at], last[at])
		if bytes := l.Filled(11+i, 100); bytes != 100*(i%4+1) {
			t.Errorf("%d bytes after document %d", bytes, i)
		}
		if parts[at].Visible.Load() >= last[at].Seq {
			t.Error("a document is shown before its batch is committed")
		}
		if i == 3 {
			ended, end := context.WithCancel(ctx)
			end() // what is in the log is carried through
			s.OK(l.Commit(ended))
		}
	}
	s.OK(l.Finish(ctx))
	for i, p := range parts {
		if p.Visible.Load() != last[i].Seq || s.Log.Synced() < last[i].Need {
			t.Errorf("partition %d shows up to %d, want %d", p.ID, p.Visible.Load(), last[i].Seq)
		}
	}
	want := []physical.LoadProgress{{Committed: 14, Bytes: 400, Batches: 1}, {Committed: 16, Bytes: 600, Batches: 2}}
	if !slices.Equal(told, want) || l.Done != want[1] {
		t.Errorf("told %+v, want %+v", told, want)
	}
	s.OK(l.Finish(ctx))
	if len(told) != 2 {
		t.Error("nothing is told as a batch")
	}
	for i := range 1000 {
		l.Note(parts[0], s.Write(parts[0], physicaltest.KeyIn(low), "more", false))
		l.Filled(16+int64(i), 100)
		s.OK(l.Finish(ctx))
		if left := calls.Readers(); left != 0 {
			t.Fatalf("%d calls are under way after load %d", left, i)
		}
	}
}

// TestLoadFails: if no call can begin or the log fails, nothing is shown or counted.
func TestLoadFails(t *testing.T) {
	ctx := context.Background()
	s := physicaltest.New(t)
	disk, broken := vfs.NewFaulty(s.Mem), false
	disk.SetHook(func(c vfs.Call) error {
		if broken && c.Op == vfs.OpSync {
			return syscall.EIO
		}
		return nil
	})
	_, err := s.Log.Close()
	s.OK(err)
	s.Log, err = wal.Create(disk, manifest.LogDir, &wal.Recovery{NextFile: 2}, 1, wal.Options{MaxFileBytes: 256 << 10, FirstFileBytes: 256 << 10})
	s.OK(err)
	p := s.Partition(1, physicaltest.Whole())
	refuse := errors.New("closed")
	calls := epoch.New()
	l := physical.Load{Env: &s.Env, Enter: func(context.Context) (epoch.Guard, error) {
		if refuse != nil {
			return epoch.Guard{}, refuse
		}
		return calls.Enter(), nil
	}}
	w := s.Write(p, physicaltest.KeyIn(physicaltest.Whole()), "a", true)
	l.Note(p, w)
	l.Filled(1, 100)
	if err = l.Commit(ctx); err != refuse || l.Done != (physical.LoadProgress{}) {
		t.Errorf("%v, %+v", err, l.Done)
	}
	refuse, broken = nil, true
	if err = l.Finish(ctx); !errors.Is(err, fault.ErrOutcomeUnknown) || l.Done != (physical.LoadProgress{}) || p.Visible.Load() >= w.Seq {
		t.Errorf("%v, %+v, shown up to %d", err, l.Done, p.Visible.Load())
	}
	if left := calls.Readers(); left != 0 {
		t.Errorf("%d calls are under way", left)
	}
}
