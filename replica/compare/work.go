package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/replica/compare/powercut"
)

// work is what clients do with a store.
type work struct {
	trial   *trial
	size    int // of a document, in bytes
	keys    int
	clients []client
	disk    *powercut.Disk // nil: killed processes lose nothing that they have written
}

// figure is one measurement.
type figure struct {
	count     int // of acknowledged puts
	took      time.Duration
	p50, p99  time.Duration
	processor time.Duration // of all processes of the store
}

// loss is what came of killing the processes.
type loss struct {
	acknowledged, lost int
	unsynced           int64 // bytes that the power cut took
}

// startTime is how long a store may take until it takes writes.
const startTime = time.Minute

// connect connects clients, and waits until the store takes a write of each.
func (w *work) connect(ctx context.Context, n int) error {
	for range n {
		cl, err := w.one(ctx)
		if err != nil {
			return err
		}
		w.clients = append(w.clients, cl)
	}
	return nil
}

// one connects one client: a store that starts refuses it at first.
func (w *work) one(ctx context.Context) (client, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := w.trial.running()
		if err != nil {
			return nil, err
		}
		cl, err := w.trial.system.connect(ctx, w.trial.plan)
		if err == nil {
			// All groups must have leaders, so more keys than there are groups.
			for i := 0; i < 64 && err == nil; i++ {
				key := fmt.Sprint("ready", i)
				each, cancel := context.WithTimeout(ctx, 5*time.Second)
				err = cl.put(each, key, document(key, 0, w.size))
				cancel()
			}
			if err == nil {
				return cl, nil
			}
			cl.close()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the store is not ready after %v: %w", startTime, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *work) close() {
	for _, cl := range w.clients {
		cl.close()
	}
	w.clients = nil
}

func document(key string, n, size int) []byte {
	b := fmt.Appendf(nil, `{"id":%q,"k":%q,"n":%d,"pad":"`, key, key, n)
	return append(b, strings.Repeat("x", max(size-len(b)-2, 0))+`"}`...)
}

func keyOf(i int) string { return fmt.Sprint("k", i) }

// measure has n clients put documents for a while.
func (w *work) measure(ctx context.Context, n int, long time.Duration) (f figure, err error) {
	before, err := w.trial.processor()
	if err != nil {
		return f, err
	}
	var tasks sync.WaitGroup
	var stop atomic.Bool
	times := make([][]time.Duration, n)
	errs := make([]error, n)
	begun := time.Now()
	for i := range n {
		tasks.Go(func() {
			cl := w.clients[i%len(w.clients)]
			for j := 0; !stop.Load(); j++ {
				key := keyOf((i*7919 + j) % w.keys)
				doc := document(key, j, w.size)
				at := time.Now()
				if errs[i] = cl.put(ctx, key, doc); errs[i] != nil {
					return
				}
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
	stop.Store(true)
	tasks.Wait()
	f.took = time.Since(begun)
	after, err := w.trial.processor()
	if err = errors.Join(append(errs, err)...); err != nil {
		return f, err
	}
	f.processor = after - before
	all := slices.Concat(times...)
	slices.Sort(all)
	f.count, f.p50, f.p99 = len(all), all[len(all)/2], all[len(all)*99/100]
	return f, nil
}

// check reads back some of what was put.
func (w *work) check(ctx context.Context) error {
	for i := range min(w.keys, 10) {
		key := keyOf(i)
		doc, err := w.clients[0].get(ctx, key)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		if !bytes.Contains(doc, fmt.Appendf(nil, "%q", key)) {
			return fmt.Errorf("key %s has another document: %.80s", key, doc)
		}
	}
	return nil
}

// lose has n clients put new keys for a while, kills all processes meanwhile, starts them again,
// and reads every key of an acknowledged put.
func (w *work) lose(ctx context.Context, n int, long time.Duration) (l loss, err error) {
	acknowledged := w.untilKilled(ctx, n, long)
	if err = ctx.Err(); err != nil {
		return l, err
	}
	connections := len(w.clients)
	w.close()
	if w.disk != nil {
		if l.unsynced, _, err = w.disk.Cut(); err != nil {
			return l, err
		}
	}
	if err = w.trial.startAll(ctx); err != nil {
		return l, err
	}
	if err = w.connect(ctx, connections); err != nil {
		return l, err
	}
	for _, keys := range acknowledged {
		l.acknowledged += len(keys)
	}
	missing, err := w.missing(ctx, acknowledged)
	if err == nil && len(slices.Concat(missing...)) > 0 {
		// NATS lets any replica answer, and one that has just started may be behind.
		select {
		case <-ctx.Done():
		case <-time.After(catchUpTime):
		}
		missing, err = w.missing(ctx, missing)
	}
	l.lost = len(slices.Concat(missing...))
	return l, err
}

// catchUpTime is how long replicas have after a start to get what others have, before a key that
// one of them lacks counts as lost.
const catchUpTime = 5 * time.Second

// missing reads the keys of each client and returns those that are not there.
func (w *work) missing(ctx context.Context, keys [][]string) ([][]string, error) {
	var tasks sync.WaitGroup
	out, errs := make([][]string, len(keys)), make([]error, len(keys))
	for i := range keys {
		tasks.Go(func() {
			for _, key := range keys[i] {
				_, err := w.clients[i%len(w.clients)].get(ctx, key)
				if errors.Is(err, errMissing) {
					out[i] = append(out[i], key)
				} else if err != nil {
					errs[i] = fmt.Errorf("key %s: %w", key, err)
					return
				}
			}
		})
	}
	tasks.Wait()
	return out, errors.Join(errs...)
}

// untilKilled returns the keys that were acknowledged to each client when all processes had ended.
func (w *work) untilKilled(ctx context.Context, n int, long time.Duration) [][]string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	acknowledged := make([][]string, n)
	for i := range n {
		tasks.Go(func() {
			for j := 0; ; j++ {
				key := fmt.Sprint("once", i, "-", j)
				if w.clients[i%len(w.clients)].put(ctx, key, document(key, j, w.size)) != nil {
					return // the processes were killed: whether it was put is unknown
				}
				acknowledged[i] = append(acknowledged[i], key)
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
	_ = w.trial.killAll() // one that has ended by itself is as good
	cancel()
	tasks.Wait()
	return acknowledged
}
