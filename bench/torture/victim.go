package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// victim is a child process at work.
type victim struct {
	task
	setting setting
	db      *engine.DB
	c       *engine.Container // that of documents
	containers
	beside   []disturbance
	mu       sync.Mutex // of out
	out      *bufio.Writer
	finished chan struct{} // closed when the child shall end in order
	quiet    sync.RWMutex  // lanes hold it shared, the taker of a sample alone
	usage    usage
}

// runVictim writes to the store until it is killed, or its standard input ends. An
// error of anything that runs in it ends the process at once: a child that went on
// would be killed, and nobody would learn of it. plant, if not nil, is for tests:
// it puts faults into the child.
func runVictim(ctx context.Context, t task, plant func(*victim)) error {
	st, err := settingOf(t.Setting)
	if err != nil {
		return err
	}
	o := st.opened(t.Buffered)
	db, err := engine.Open(ctx, t.Dir, &o)
	if err != nil {
		return err
	}
	v := &victim{task: t, setting: st, db: db, out: bufio.NewWriter(os.Stdout), finished: make(chan struct{})}
	if v.containers, err = openContainers(ctx, db, st.def); err != nil {
		return err
	}
	if v.c, err = db.Container("c"); err != nil {
		return err
	}
	v.beside = v.disturbances()
	if plant != nil {
		plant(v)
	}
	if err := v.say("open\n"); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(v.finished)
	}()
	var work sync.WaitGroup
	run := func(fn func() error) {
		work.Go(func() {
			if err := fn(); err != nil {
				fail(err)
			}
		})
	}
	for number := range st.shape.Lanes {
		run(func() error { return v.write(ctx, number) })
	}
	for i, opaque := range []bool{false, true} {
		run(func() error { return v.follow(ctx, opaque, t.Feeds[i]) })
	}
	if st.ttl > 0 {
		run(func() error { return v.writeExpiring(ctx) })
	}
	if t.Sample > 0 {
		run(v.sample)
	}
	run(func() error { return v.disturb(ctx, rand.New(rand.NewPCG(t.Seed, uint64(os.Getpid())))) })
	work.Wait()
	return db.Close()
}

// explained says whether the medium explains that a call failed: a full disk, a device
// that fails, or a power cut. What a call answers is never explained by them, and
// damage only by a device that fails.
func (v *victim) explained(err error) bool {
	if isViolation(err) {
		return false
	}
	if v.Failing && errors.Is(err, engine.ErrCorrupt) {
		return true
	}
	if v.Failing || v.Cut {
		if errors.As(err, new(*engine.IOError)) || errors.As(err, new(syscall.Errno)) {
			return true
		}
	}
	if v.Ballast == "" && !v.Failing && !v.Cut {
		return false
	}
	return errors.Is(err, engine.ErrFailed) || errors.Is(err, engine.ErrOutcomeUnknown) || errors.Is(err, engine.ErrBusy) || noSpace(err)
}

// noSpace says whether a disk or a device was full, which the file system tells of files that
// are not the store's, too.
func noSpace(err error) bool {
	return errors.Is(err, engine.ErrDiskFull) || errors.Is(err, syscall.ENOSPC)
}

// every calls fn each d, or as often as it returns if d is 0, until the child
// shall end or an error comes.
func (v *victim) every(d time.Duration, fn func() error) error {
	due := time.Now().Add(time.Duration(rand.Int64N(int64(d) + 1)))
	for {
		if wait := time.Until(due); d > 0 && wait > 0 {
			select {
			case <-v.finished:
				return nil
			case <-time.After(wait):
			}
		}
		select {
		case <-v.finished:
			return nil
		default:
		}
		if due = due.Add(d); time.Since(due) > time.Second {
			due = time.Now() // what could not be done in time is not done later
		}
		if err := fn(); err != nil {
			return err
		}
	}
}

// apart is the time between calls that come so often in a second, spread over n
// goroutines.
func apart(rate float64, n int) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(n) / rate * float64(time.Second))
}

// errStopped ends a lane whose store takes no more writes.
var errStopped = errors.New("stopped")

// write carries out the operations of a lane, and says so.
func (v *victim) write(ctx context.Context, number int) error {
	l, err := v.lane(ctx, number)
	if err != nil {
		return err
	}
	looks := max(97, l.IDs)
	err = v.every(apart(v.Rate, l.Lanes), func() error {
		v.quiet.RLock()
		defer v.quiet.RUnlock()
		op := l.next()
		begin := time.Now()
		switch err := v.do(ctx, l, op); {
		case err == nil:
		case !v.explained(err):
			// Nothing but a wrong answer is left.
			return violation("lane %d, operation %d: %w", l.number, op.n, err)
		case v.Ballast != "" && (errors.Is(err, engine.ErrDiskFull) || errors.Is(err, engine.ErrBusy)):
			if err := os.Remove(v.Ballast); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		default:
			return errStopped // what was acknowledged counts
		}
		v.usage.took(time.Since(begin))
		before := l.bytes
		l.apply(op)
		v.usage.live.Add(l.bytes - before)
		if err := v.say("%d %d\n", l.number, op.n); err != nil {
			return err
		}
		if op.n%looks != 0 {
			return nil
		}
		if err := v.compareLane(ctx, l); err != nil && v.explained(err) {
			return errStopped
		} else {
			return err
		}
	})
	if err == errStopped {
		return nil
	}
	return err
}

// lane is the model of a lane as the store has it, which the parent has checked.
func (v *victim) lane(ctx context.Context, number int) (*lane, error) {
	l := newLane(v.setting.shape, v.Seed, number)
	f, err := v.readLane(ctx, l)
	if err != nil {
		return nil, err
	}
	l.n = v.At[number]
	for _, c := range f.docs {
		l.add(c)
	}
	v.usage.live.Add(l.bytes)
	return l, nil
}

// say writes a line for the parent.
func (v *victim) say(format string, args ...any) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, format, args...)
	return v.out.Flush()
}

// writeExpiring writes items that expire, beside the story.
func (v *victim) writeExpiring(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(v.Seed, 3))
	return v.every(apart(max(v.Rate/10, 1), 1), func() error {
		v.quiet.RLock()
		defer v.quiet.RUnlock()
		n := rng.IntN(1_000_000)
		doc := fmt.Sprintf(`{"id":"e%06d","k":"expiring","u":%d,"ttl":%d,"text":%q}`, n, n, v.setting.ttl/time.Second, change{count: rng.IntN(1000), size: 300}.text())
		if _, err := v.c.Upsert(ctx, []byte(doc), nil); err != nil && !v.explained(err) {
			return fmt.Errorf("an item that expires: %w", err)
		}
		return nil
	})
}

// follow reads a change feed and tells the parent what it shows.
func (v *victim) follow(ctx context.Context, opaque bool, from string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-v.finished
		cancel()
	}()
	err := v.feed(ctx, opaque, from, newModels(v.setting.shape, v.Seed), true, func(p piece) error {
		b, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return v.say("feed %s\n", b)
	})
	if err == nil || v.explained(err) {
		return nil // what was shown counts
	}
	return fmt.Errorf("the feed from %s on: %w", from, err)
}

// disturbance is something that a store does in years, beside the lanes.
type disturbance struct {
	name string
	do   func(ctx context.Context, rng *rand.Rand) error
}

// disturb does such things one after the other. Their errors count, but for those that
// the medium explains.
func (v *victim) disturb(ctx context.Context, rng *rand.Rand) error {
	return v.every(v.Pause, func() error {
		v.quiet.RLock()
		defer v.quiet.RUnlock()
		d := v.beside[rng.IntN(len(v.beside))]
		if err := d.do(ctx, rng); err != nil && !v.explained(err) {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		return nil
	})
}

// disturbances are those of a child.
func (v *victim) disturbances() []disturbance {
	return []disturbance{
		{"flush", func(ctx context.Context, _ *rand.Rand) error { return v.db.Flush(ctx) }},
		{"compaction", func(ctx context.Context, rng *rand.Rand) error {
			if rng.IntN(4) > 0 {
				return nil
			}
			return v.db.Compact(ctx)
		}},
		{"split", func(ctx context.Context, rng *rand.Rand) error {
			parts := v.c.Partitions()
			if len(parts) >= v.setting.partitions {
				return nil
			}
			return reshaped(ctx)(v.c.Split(ctx, parts[rng.IntN(len(parts))].ID, nil))
		}},
		{"merge", func(ctx context.Context, rng *rand.Rand) error {
			parts := v.c.Partitions()
			i := rng.IntN(len(parts))
			if i+1 >= len(parts) {
				return nil
			}
			return reshaped(ctx)(v.c.Merge(ctx, parts[i].ID, parts[i+1].ID))
		}},
		{"checkpoint", func(ctx context.Context, _ *rand.Rand) error { return v.checkpoint(ctx) }},
		{"backup", func(ctx context.Context, _ *rand.Rand) error { return v.backup(ctx) }},
		{"count", func(ctx context.Context, _ *rand.Rand) error {
			_, err := v.c.Count(ctx, engine.AllPartitions(), engine.Exists("/n"))
			return err
		}},
		{"snapshot", func(ctx context.Context, _ *rand.Rand) error {
			s, err := v.c.Snapshot(ctx)
			if err != nil {
				return err
			}
			for _, err := range s.ScanAll(ctx, nil) {
				if err != nil {
					return errors.Join(err, s.Close())
				}
			}
			return s.Close()
		}},
		{"feed", func(ctx context.Context, _ *rand.Rand) error {
			for _, err := range v.c.Changes(ctx, engine.AllPartitions(), engine.FromStart(), nil) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

// reshaped waits for a split or a merge. A refusal is right, and so is that a partition is
// gone which the store has split by itself meanwhile.
func reshaped(ctx context.Context) func(*engine.ReshapeJob, error) error {
	return func(job *engine.ReshapeJob, err error) error {
		if err == nil {
			err = job.Wait(ctx)
		}
		if errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		return err
	}
}

// checkpoint makes one beside the store. The first has its name once it is whole;
// others go again.
func (v *victim) checkpoint(ctx context.Context) error {
	name := v.Dir + ".checkpoint"
	if err := os.RemoveAll(name + ".tmp"); err != nil {
		return err
	}
	if _, err := v.db.Checkpoint(ctx, name+".tmp"); err != nil || exists(name) {
		return err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// backup writes one beside the store; it has its name once it is whole and
// synced.
func (v *victim) backup(ctx context.Context) error {
	name := v.Dir + ".backup"
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := v.db.Backup(ctx, f, nil); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}
