package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// keep does the work of a background goroutine until stop is called.
func keep(t testing.TB, l *Log, release func()) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.SpareWanted():
			}
			if err := l.MakeSpare(ctx); err != nil {
				t.Errorf("MakeSpare: %v", err)
			}
			if release != nil {
				release()
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// committers append records in streams of their own, with the three
// durabilities: synced, buffered, and synced by somebody now and then.
type committers struct {
	log   *Log
	acked [64]atomic.Uint64 // number of the newest record that is durable
	sent  [64]atomic.Uint64
}

func (c *committers) payload(buf []byte, i int, n uint64) []byte {
	buf = binary.LittleEndian.AppendUint64(buf[:0], n)
	size := 200 + (i*131+int(n)*17)%800
	for len(buf) < size {
		buf = append(buf, byte(n), byte(i))
	}
	return buf
}

// run appends records until the log refuses or count is reached.
func (c *committers) run(i int, count uint64) error {
	var buf []byte
	var syncedTo uint64
	for n := uint64(1); n <= count; n++ {
		buf = c.payload(buf, i, n)
		c.sent[i].Store(n)
		_, pos, err := c.log.Append(Stream(i+1), TypeWrite, 1, buf[:8], buf[8:])
		if err != nil {
			return err
		}
		switch i % 3 {
		case 0:
			if err = c.log.Wait(pos, true); err == nil {
				c.acked[i].Store(n)
			}
		case 1:
			err = c.log.Wait(pos, false)
		case 2:
			if err = c.log.Wait(pos, false); err == nil && n-syncedTo == 20 {
				if err = c.log.Sync(); err == nil {
					c.acked[i].Store(n)
					syncedTo = n
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check recovers from fs: each stream is there without a gap up to what was
// acknowledged by then at least.
func (c *committers) check(t *testing.T, fs vfs.FS, st State, o Options, acked [64]uint64) {
	t.Helper()
	var have [64]uint64
	var first [64]uint64
	var buf []byte
	var last uint64
	_, err := Recover(t.Context(), fs, logDir, st, o, func(r *Record) error {
		if r.Type != TypeWrite {
			return nil
		}
		i := int(r.Stream) - 1
		n := binary.LittleEndian.Uint64(r.Payload)
		if have[i] == 0 {
			first[i] = n
		} else if n != have[i]+1 {
			t.Errorf("stream %d: record %d after %d", r.Stream, n, have[i])
		}
		have[i] = n
		if r.Seq <= last {
			t.Errorf("sequence %d after %d", r.Seq, last)
		}
		last = r.Seq
		if buf = c.payload(buf, i, n); string(buf) != string(r.Payload) {
			t.Errorf("stream %d: record %d is not what was written", r.Stream, n)
		}
		return nil
	})
	must(t, err)
	for i := range have {
		if have[i] < acked[i] || st.First <= 1 && first[i] > 1 {
			t.Errorf("stream %d: records %d to %d, acknowledged up to %d", i+1, first[i], have[i], acked[i])
		}
		if have[i] > c.sent[i].Load() {
			t.Errorf("stream %d: record %d was never appended", i+1, have[i])
		}
	}
}

func (c *committers) ackedNow() (acked [64]uint64) {
	for i := range acked {
		acked[i] = c.acked[i].Load()
	}
	return acked
}

// TestCommitters runs 64 of them while files are made ahead, and cuts the power
// again and again.
func TestCommitters(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(1), State{}
	o.MaxFileBytes = 256 << 10
	l, _ := mustOpen(t, fs, &st, o)
	c := &committers{log: l}
	stop := keep(t, l, nil)
	var wg sync.WaitGroup
	var running atomic.Int64
	for i := range c.acked {
		running.Add(1)
		wg.Go(func() {
			defer running.Add(-1)
			if err := c.run(i, 60); err != nil {
				t.Errorf("committer %d: %v", i, err)
			}
		})
	}
	for cut := uint64(0); running.Load() > 0 && cut < 20; cut++ {
		acked := c.ackedNow()
		c.check(t, fs.Crash(vfs.CrashOptions{Keep: vfs.Keep(cut % 3), TornLast: cut%2 == 0, Seed: cut}), st, o, acked)
	}
	wg.Wait()
	stop()
	const calls = 64 / 3 * 60 / 20 // of Sync, which are not counted as Waits
	if s := l.Stats(); s.Rotations < 5 || s.Syncs >= s.Waits+s.Rotations+calls || s.Records < 64*60 {
		t.Errorf("stats %+v", s)
	}
	mustClose(t, l, &st)
	var all [64]uint64
	for i := range all {
		all[i] = 60
	}
	c.check(t, fs.Crash(vfs.CrashOptions{}), st, o, all)
}

// TestCommittersAndDrop lets go of files while records are appended.
func TestCommittersAndDrop(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(1), State{}
	o.KeepSpareBytes = 1 << 20
	l, _ := mustOpen(t, fs, &st, o)
	c := &committers{log: l}
	release := func() {
		upTo := l.LastSeq()
		if err := l.Sync(); err != nil {
			t.Errorf("Sync: %v", err)
		}
		st.First = max(st.First, l.FirstNeeded(func(Stream, uint64) uint64 { return upTo }))
		if err := l.Drop(st.First); err != nil {
			t.Errorf("Drop: %v", err)
		}
		l.Oldest()
		l.Stats()
	}
	stop := keep(t, l, release)
	var wg sync.WaitGroup
	for i := range c.acked {
		wg.Go(func() {
			if err := c.run(i, 60); err != nil {
				t.Errorf("committer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	stop()
	release()
	if s := l.Stats(); s.Files > 3 || s.Recycled == 0 || l.First() < 10 {
		t.Errorf("first file %d, stats %+v", l.First(), s)
	}
	mustClose(t, l, &st)
	if _, _, err := replay(fs, st, o); err != nil {
		t.Error(err)
	}
}

// TestCloseDuringWaits closes the log under those who use it: who was told that
// his record is durable finds it, everybody comes back.
func TestCloseDuringWaits(t *testing.T) {
	for round := range 10 {
		fs, o, st := newMem(t), smallOptions(1), State{}
		l, _ := mustOpen(t, fs, &st, o)
		c := &committers{log: l}
		stop := keep(t, l, nil)
		var wg sync.WaitGroup
		for i := range c.acked {
			wg.Go(func() {
				if err := c.run(i, 1<<40); !errors.Is(err, ErrClosed) {
					t.Errorf("committer %d: %v", i, err)
				}
			})
		}
		for l.LastSeq() < uint64(round*100) {
			runtime.Gosched()
		}
		mustClose(t, l, &st)
		wg.Wait()
		stop()
		c.check(t, fs.Crash(vfs.CrashOptions{}), st, o, c.ackedNow())
	}
}

// TestGroup: those who come while one syncs share the next sync.
func TestGroup(t *testing.T) {
	mem, o, st := newMem(t), smallOptions(1), State{}
	fs := vfs.NewFaulty(mem)
	l, _ := mustOpen(t, fs, &st, o)
	const waiters = 50
	syncing, results := make(chan bool), make(chan error)
	first := true
	fs.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpSync && first {
			first = false
			syncing <- true
			<-syncing
		}
		return nil
	})
	wait := func(pos Position) { results <- l.Wait(pos, true) }
	_, pos := put(t, l, 1, "first")
	go wait(pos)
	<-syncing
	for range waiters {
		_, pos = put(t, l, 1, "later")
		go wait(pos)
	}
	for l.queued() < waiters {
		runtime.Gosched()
	}
	syncs := l.Stats().Syncs
	syncing <- false
	for range waiters + 1 {
		must(t, <-results)
	}
	if n := l.Stats().Syncs - syncs; n != 2 {
		t.Errorf("%d syncs, want that of the first and one for all others", n)
	}
	if l.group.led || l.queued() > 0 {
		t.Error("somebody still leads or waits")
	}
}
