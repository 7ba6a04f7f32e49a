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
	"sync/atomic"
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
	mu       sync.Mutex // of out
	out      *bufio.Writer
	finished chan struct{} // closed when the child shall end in order
	quiet    sync.RWMutex  // lanes hold it shared, the taker of a sample alone
	usage    usage
}

// runVictim writes to the store until it is killed, or its standard input ends.
func runVictim(ctx context.Context, t task) error {
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
	if err := v.say("open\n"); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(v.finished)
	}()
	var work sync.WaitGroup
	var failed atomic.Pointer[error]
	run := func(fn func() error) {
		work.Go(func() {
			if err := fn(); err != nil {
				failed.CompareAndSwap(nil, &err)
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
	run(func() error {
		v.disturb(ctx, rand.New(rand.NewPCG(t.Seed, uint64(os.Getpid()))))
		return nil
	})
	work.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return db.Close()
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
		case errors.Is(err, engine.ErrOutcomeUnknown), errors.Is(err, engine.ErrFailed):
			return errStopped // what was acknowledged counts
		case v.Failing && (errors.As(err, new(*engine.IOError)) || errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrDiskFull)):
			return errStopped
		case errors.Is(err, engine.ErrDiskFull), errors.Is(err, engine.ErrBusy):
			if v.Ballast == "" {
				return fmt.Errorf("lane %d, operation %d: %w", l.number, op.n, err)
			}
			if err := os.Remove(v.Ballast); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		case err != nil:
			return fmt.Errorf("lane %d, operation %d: %w", l.number, op.n, err)
		}
		v.usage.took(time.Since(begin))
		before := l.bytes
		l.apply(op)
		v.usage.live.Add(l.bytes - before)
		if err := v.say("%d %d\n", l.number, op.n); err != nil {
			return err
		}
		if op.n%looks == 0 {
			return v.compareLane(ctx, l)
		}
		return nil
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
		_, err := v.c.Upsert(ctx, []byte(doc), nil)
		return err
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
	if errors.Is(err, engine.ErrFailed) || errors.Is(err, engine.ErrDiskFull) || v.Failing && !isViolation(err) {
		return nil // what was shown counts
	}
	return err
}

// disturb does beside the lanes what a store does in years. What it meets
// (refused splits, full disks) is the business of those calls.
func (v *victim) disturb(ctx context.Context, rng *rand.Rand) {
	_ = v.every(v.Pause, func() error {
		v.quiet.RLock()
		defer v.quiet.RUnlock()
		parts := v.c.Partitions()
		p := parts[rng.IntN(len(parts))]
		switch rng.IntN(9) {
		case 0:
			_ = v.db.Flush(ctx)
		case 1:
			if rng.IntN(4) == 0 {
				_ = v.db.Compact(ctx)
			}
		case 2:
			if len(parts) < v.setting.partitions {
				if job, err := v.c.Split(ctx, p.ID, nil); err == nil {
					_ = job.Wait(ctx)
				}
			}
		case 3:
			if i := rng.IntN(len(parts)); i+1 < len(parts) {
				if job, err := v.c.Merge(ctx, parts[i].ID, parts[i+1].ID); err == nil {
					_ = job.Wait(ctx)
				}
			}
		case 4:
			v.checkpoint(ctx)
		case 5:
			v.backup(ctx)
		case 6:
			_, _ = v.c.Count(ctx, engine.AllPartitions(), engine.Exists("/n"))
		case 7:
			if s, err := v.c.Snapshot(ctx); err == nil {
				for _, err := range s.ScanAll(ctx, nil) {
					if err != nil {
						break
					}
				}
				_ = s.Close()
			}
		case 8:
			for _, err := range v.c.Changes(ctx, engine.AllPartitions(), engine.FromStart(), nil) {
				if err != nil {
					break
				}
			}
		}
		return nil
	})
}

// checkpoint makes one beside the store. The first has its name once it is whole;
// others go again.
func (v *victim) checkpoint(ctx context.Context) {
	name := v.Dir + ".checkpoint"
	if os.RemoveAll(name+".tmp") != nil {
		return
	}
	if _, err := v.db.Checkpoint(ctx, name+".tmp"); err != nil || exists(name) {
		return
	}
	if os.Rename(name+".tmp", name) == nil {
		_ = syncDir(filepath.Dir(name))
	}
}

// backup writes one beside the store; it has its name once it is whole and
// synced.
func (v *victim) backup(ctx context.Context) {
	name := v.Dir + ".backup"
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return
	}
	defer f.Close()
	if _, err := v.db.Backup(ctx, f, nil); err != nil || f.Sync() != nil {
		return
	}
	if os.Rename(f.Name(), name) == nil {
		_ = syncDir(filepath.Dir(name))
	}
}
