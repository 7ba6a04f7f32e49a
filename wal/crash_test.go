package wal

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// images returns what a power cut now can leave: nothing unsynced, all of it,
// and random parts.
func images(mem *vfs.Mem, seed uint64) map[string]*vfs.Mem {
	m := make(map[string]*vfs.Mem)
	for i, o := range []vfs.CrashOptions{
		{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepAll, TornLast: true},
		{Keep: vfs.KeepRandom}, {Keep: vfs.KeepRandom, TornLast: true},
	} {
		o.Seed = seed + uint64(i)
		m[fmt.Sprintf("%+v", o)] = mem.Crash(o)
	}
	return m
}

// changes reports whether a call changes what a power cut leaves.
func changes(op vfs.Op) bool {
	return op != vfs.OpRead && op != vfs.OpStat && op != vfs.OpList && op != vfs.OpOpen && op != vfs.OpOpenWrite
}

// TestCrashAtEachCall cuts the power before every file-system call of random
// stories, opening, rotating, recycling and closing among them.
func TestCrashAtEachCall(t *testing.T) {
	seed := randtest.Seed(t)
	for i := range uint64(3) {
		var w *world
		set := func(fs *vfs.Faulty) {
			fs.SetHook(func(c vfs.Call) error {
				if w == nil || !changes(c.Op) {
					return nil
				}
				for how, image := range images(w.mem, seed^uint64(c.N)<<8) {
					w.check(image, w.acked, fmt.Sprintf("%s before call %d, %v %s", how, c.N, c.Op, c.Name))
				}
				return nil
			})
		}
		w = newWorld(t, seed+i, set)
		for range 150 {
			w.step()
		}
		w.finish()
	}
}

// TestCrashInRecovery cuts the power in a random story, and again before every
// call of the open that follows: each time the same records are there.
func TestCrashInRecovery(t *testing.T) {
	seed := randtest.Seed(t)
	for i := range uint64(4) {
		w := newWorld(t, seed+i, nil)
		for range 100 {
			w.step()
		}
		for range 10 {
			if w.log != nil {
				w.append()
			}
		}
		for how, image := range images(w.mem, seed+i) {
			crashInRecovery(t, w, image, fmt.Sprintf("story of seed %d, %s", seed+i, how))
		}
	}
}

func crashInRecovery(t *testing.T, w *world, image *vfs.Mem, what string) {
	t.Helper()
	want, _ := mustReplay(t, image, w.st, w.opts)
	st := w.st
	fs := vfs.NewFaulty(image)
	fs.SetHook(func(c vfs.Call) error {
		if !changes(c.Op) {
			return nil
		}
		for how, again := range images(image, w.seed+uint64(c.N)) {
			got, _, err := replay(again, st, w.opts)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s, then %s before call %d, %v %s: %d records, want %d: %v", what, how, c.N, c.Op, c.Name, len(got), len(want), err)
			}
		}
		return nil
	})
	l, got, err := openLog(fs, &st, w.opts)
	must(t, err)
	wantEntries(t, got, want)
	fs.SetHook(nil)
	e, _ := put(t, l, 1, "after")
	mustClose(t, l, &st)
	got, _ = mustReplay(t, image, st, w.opts)
	wantEntries(t, got, append(want, e))
}

// TestPrepareRecovery: a process that was killed between the rename and the directory
// sync leaves a file whose name is not durable. What recovery notes must not
// depend on it.
func TestPrepareRecovery(t *testing.T) {
	fs, o, st := newMem(t), smallOptions(1), State{}
	l, _ := mustOpen(t, fs, &st, o)
	e, pos := put(t, l, 1, "a")
	must(t, l.Wait(pos, false))
	faulty := vfs.NewFaulty(fs)
	var killed *vfs.Mem
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpSyncDir && killed == nil {
			killed = fs.Kill()
		}
		return nil
	})
	l.fs = faulty
	must(t, l.MakeSpare(t.Context()))
	if killed == nil {
		t.Fatal("MakeSpare made no file")
	}
	settled := killed.Clone()
	must(t, PrepareRecovery(settled, logDir, st))
	_, rec := mustReplay(t, settled, st, o)
	noted := State{First: rec.First, Closed: rec.Closed}
	got, _ := mustReplay(t, settled.Crash(vfs.CrashOptions{}), noted, o)
	wantEntries(t, got, []entry{e})

	l, got = mustOpen(t, killed, &st, o)
	wantEntries(t, got, []entry{e})
	e2, pos := put(t, l, 1, "b")
	must(t, l.Wait(pos, true))
	got, _ = mustReplay(t, killed.Crash(vfs.CrashOptions{}), st, o)
	wantEntries(t, got, []entry{e, e2})
}
