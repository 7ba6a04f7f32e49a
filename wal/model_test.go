package wal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// world is a log with its owner: the manifest, which is always durable and
// whole, and what the owner was told. One goroutine uses it.
type world struct {
	t    testing.TB
	seed uint64
	rng  *rand.Rand
	mem  *vfs.Mem
	fs   *vfs.Faulty
	set  func(*vfs.Faulty) // prepares a new Faulty
	opts Options
	st   State
	log  *Log // nil while none is open
	done map[Stream]uint64

	records []placed
	acked   int // the first so many are durable
	written int // the first so many survive the process
	least   int // the first so many must be there at the next open
	serial  int
	faulted bool // some call has failed
	eager   bool // files are filled ahead and recycled
	reused  int64
}

// placed is an entry and where it lies.
type placed struct {
	entry
	file uint64
	pos  Position
}

func newWorld(t testing.TB, seed uint64, set func(*vfs.Faulty)) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), mem: newMem(t), set: set,
		opts: smallOptions(seed), done: make(map[Stream]uint64),
	}
	if w.rng.IntN(2) == 0 {
		w.opts.KeepSpareBytes = 4 * minFileBytes
	}
	w.eager = w.rng.IntN(2) == 0
	w.use(w.mem)
	return w
}

func (w *world) use(mem *vfs.Mem) {
	w.mem, w.fs = mem, vfs.NewFaulty(mem)
	if w.set != nil {
		w.set(w.fs)
	}
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("story of seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// base returns the index of the first record that the manifest still needs.
func (w *world) base() int {
	return sort.Search(len(w.records), func(i int) bool { return w.records[i].file >= w.st.First })
}

// check recovers the log from fs and compares it with what must be there: the
// needed records in their order up to some place, the first least of all
// among them. It returns how many of all there are.
func (w *world) check(fs vfs.FS, least int, what string) int {
	w.t.Helper()
	got, rec, err := replay(fs, w.st, w.opts)
	if err != nil {
		w.fatal("%s: %v", what, err)
	}
	base := w.base()
	w.compare(got, base, least, what)
	if rec.LastSeq < highest(got) {
		w.fatal("%s: last sequence %d, want %d or more", what, rec.LastSeq, highest(got))
	}
	return base + len(got)
}

func highest(list []entry) (seq uint64) {
	for _, e := range list {
		seq = max(seq, lastSeq(e.typ, e.seq, e.count))
	}
	return seq
}

func (w *world) compare(got []entry, base, least int, what string) {
	w.t.Helper()
	if have := base + len(got); have < least {
		w.fatal("%s: %d records, %d are promised", what, have, least)
	} else if have > len(w.records) {
		w.fatal("%s: %d records, only %d were appended", what, have, len(w.records))
	}
	for i, e := range got {
		if want := w.records[base+i]; e != want.entry {
			w.fatal("%s: record %d is %v, want %v", what, base+i, e, want.entry)
		}
	}
}

// step does one random thing. Errors are checked here, against whether a call
// has failed.
func (w *world) step() {
	w.t.Helper()
	if w.log == nil {
		w.open()
		return
	}
	if w.eager {
		w.log.count.waits.Add(fewWaits)
	}
	switch n := w.rng.IntN(100); {
	case n < 58:
		w.append()
	case n < 70:
		w.wait(false)
	case n < 82:
		w.wait(true)
	case n < 84:
		w.afterSync(w.log.Sync())
	case n < 85:
		err := w.log.Rotate()
		w.allowed(err)
		if err == nil {
			w.afterSync(nil)
			if w.log.mu.offset != fileHeaderBytes {
				w.fatal("the file after Rotate is not empty")
			}
		}
	case n < 91:
		w.allowed(w.log.MakeSpare(context.Background()))
	case n < 93:
		if err := w.log.Vouch(); err != nil {
			w.allowed(err)
		} else if w.log.failed.Load() == nil {
			w.afterSync(nil)
		}
	case n < 97:
		w.release()
	case n < 99:
		w.close()
	default:
		w.crash(true)
	}
}

// allowed takes an error that is allowed only if a call has failed, and never
// says that something is damaged.
func (w *world) allowed(err error) {
	w.t.Helper()
	if err == nil {
		return
	}
	if !w.faulted || errors.Is(err, fault.ErrCorrupt) {
		w.fatal("%v", err)
	}
}

func (w *world) append() {
	w.t.Helper()
	s := Stream(w.rng.IntN(4) + 1)
	size := w.rng.IntN(200)
	switch w.rng.IntN(20) {
	case 0:
		size = w.rng.IntN(90 << 10)
	case 1, 2, 3, 4, 5, 6, 7:
		size = w.rng.IntN(9000)
	}
	w.serial++
	payload := fmt.Sprint(w.serial, " ", filler(w.serial, size))
	e := entry{stream: s, typ: TypeWrite, count: uint32(w.rng.IntN(3)), payload: payload}
	cut := w.rng.IntN(len(payload))
	before := w.log.LastSeq()
	var pos Position
	var at Ref
	var err error
	switch w.rng.IntN(12) {
	case 0:
		e.typ, e.count, e.seq = TypeCarried, 0, before
		pos, at, err = w.log.AppendCarried(s, before, []byte(payload))
	case 1:
		e.typ = TypeFence
		fallthrough
	default:
		e.seq, pos, err = w.log.Append(s, e.typ, e.count, []byte(payload[:cut]), []byte(payload[cut:]))
		at.File = w.log.mu.file.number
	}
	failed := w.log.failed.Load() != nil
	if err != nil {
		w.allowed(err)
		if failed != errors.Is(err, fault.ErrFailed) {
			w.fatal("log failed: %v; Append: %v", failed, err)
		}
		if w.log.LastSeq() != before {
			w.fatal("a refused record has a sequence")
		}
		return
	}
	w.records = append(w.records, placed{e, at.File, pos})
}

// wait waits for a random record of this run.
func (w *world) wait(sync bool) {
	w.t.Helper()
	i := len(w.records) - 1
	if i < 0 || w.records[i].pos == 0 {
		return
	}
	if back := w.rng.IntN(4); i-back >= 0 && w.records[i-back].pos > 0 {
		i -= back
	}
	err := w.log.Wait(w.records[i].pos, sync)
	if err != nil {
		w.allowed(err)
		if !errors.Is(err, fault.ErrOutcomeUnknown) {
			w.fatal("Wait: %v", err)
		}
		if w.log.failed.Load() == nil {
			if !errors.Is(err, ErrStalled) {
				w.fatal("Wait: %v", err)
			}
			return
		}
		if _, _, err := w.log.Append(1, TypeWrite, 1, nil, nil); !errors.Is(err, fault.ErrFailed) {
			w.fatal("Append after a failed Wait: %v", err)
		}
		return
	}
	if sync {
		w.acked = max(w.acked, i+1)
	}
	w.written = max(w.written, i+1, w.acked)
}

// afterSync notes what a Sync of all promises.
func (w *world) afterSync(err error) {
	w.t.Helper()
	w.allowed(err)
	if err == nil {
		w.acked, w.written = len(w.records), len(w.records)
	}
}

// release lets go of files as the owner does it: what the log says is needed,
// the manifest, Drop.
func (w *world) release() {
	w.t.Helper()
	for _, r := range w.records[:w.acked] {
		if w.rng.IntN(3) == 0 {
			w.done[r.stream] = max(w.done[r.stream], lastSeq(r.typ, r.seq, r.count)-uint64(w.rng.IntN(2)))
		}
	}
	first := w.log.FirstNeeded(func(s Stream, _ uint64) uint64 { return w.done[s] })
	want := w.log.mu.file.number
	for _, r := range w.records {
		if lastSeq(r.typ, r.seq, r.count) > w.done[r.stream] {
			want = min(want, r.file)
		}
	}
	want = max(want, w.st.First)
	_, full := w.log.sealed.oldest(w.log.Appended())
	if first > want || first < want && w.log.Written() == w.log.Appended() && !full {
		w.fatal("first needed file is %d, want %d", first, want)
	}
	if first > w.st.First {
		w.st.First = first
	}
	w.allowed(w.log.Drop(first))
}

func (w *world) close() {
	w.t.Helper()
	c, err := w.log.Close()
	w.reused += w.log.Stats().Recycled
	w.log = nil
	if err != nil {
		w.allowed(err)
		w.crash(false)
		return
	}
	w.st.Closed = append(w.st.Closed, c)
	w.acked, w.written, w.least = len(w.records), len(w.records), len(w.records)
}

// crash ends the process, by a kill or by a power cut.
func (w *world) crash(kill bool) {
	w.t.Helper()
	w.log = nil
	// After a call has failed, what is read may not be what is on the disk.
	if kill && !w.faulted && w.rng.IntN(2) == 0 {
		w.use(w.mem.Kill())
		w.least = w.written
		return
	}
	w.least = w.acked
	w.use(w.mem.Crash(vfs.CrashOptions{Keep: vfs.Keep(w.rng.IntN(3)), TornLast: w.rng.IntN(2) == 0, Seed: w.rng.Uint64()}))
}

// open opens the log again; what it has recovered is what there is from now on.
func (w *world) open() {
	w.t.Helper()
	if err := PrepareRecovery(w.fs, logDir, w.st); err != nil {
		w.allowed(err)
		w.crash(false)
		return
	}
	got, rec, err := replay(w.fs, w.st, w.opts)
	if err != nil {
		w.allowed(err)
		w.crash(false)
		return
	}
	base := w.base()
	w.compare(got, base, w.least, "open")
	w.records = w.records[:base+len(got)]
	for i := range w.records {
		w.records[i].pos = 0
	}
	w.acked, w.written = len(w.records), len(w.records)
	w.st = State{First: rec.First, Closed: rec.Closed}
	l, err := Create(w.fs, logDir, rec, rec.LastSeq+1, w.opts)
	if err != nil {
		w.allowed(err)
		w.crash(false)
		return
	}
	w.log = l
}

// finish looks at what is left at the end, and at whether it can be built upon.
func (w *world) finish() {
	w.t.Helper()
	for keep := vfs.KeepNone; keep <= vfs.KeepRandom; keep++ {
		w.check(w.mem.Crash(vfs.CrashOptions{Keep: keep, TornLast: keep == vfs.KeepRandom, Seed: w.rng.Uint64()}), w.acked, fmt.Sprintf("at the end, keep %d", keep))
	}
	w.set, w.log, w.least = nil, nil, w.acked
	w.use(w.mem.Crash(vfs.CrashOptions{Keep: vfs.KeepRandom, Seed: w.rng.Uint64()}))
	w.faulted = false
	w.open()
	w.append()
	w.append()
	w.close()
	w.check(w.mem, len(w.records), "after the last close")
}

// atEachCall tells the story of a seed again and again, each time with something that
// goes wrong from another one of its calls on: fails is told how many calls ago that was,
// and what it returns is the call's. Each file system of a story is prepared; at the end
// of a story what went wrong is mended.
func atEachCall(t *testing.T, seed uint64, steps int, prepare func(w *world, n int64), fails func(w *world, ago int64) error, mend func(w *world)) {
	for n := int64(1); ; n++ {
		calls := int64(0) // of all processes of the story
		w := newWorld(t, seed, nil)
		w.set = func(fs *vfs.Faulty) {
			prepare(w, n)
			fs.SetHook(func(vfs.Call) error {
				if calls++; calls < n {
					return nil
				}
				w.faulted = true
				return fails(w, calls-n)
			})
		}
		w.use(w.mem)
		for range steps {
			w.step()
		}
		reached := w.faulted
		mend(w)
		w.set = nil
		w.finish()
		if !reached {
			if n < 20 {
				t.Fatalf("the story has %d calls only", n-1)
			}
			return
		}
	}
}

// TestModel runs random stories with kills, power cuts and restarts.
func TestModel(t *testing.T) {
	seed, reused := randtest.Seed(t), int64(0)
	for i := range uint64(30) {
		w := newWorld(t, seed+i, nil)
		for range 300 {
			w.step()
		}
		w.finish()
		reused += w.reused
	}
	if reused == 0 {
		t.Error("no file was recycled")
	}
}
