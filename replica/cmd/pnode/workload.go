package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/protocol"
)

const container = "items"

// perWriter is how many items a writer writes again and again.
const perWriter = 100

// writers write until they are stopped. Each has items of its own, so it knows what each must
// be: the number of the newest write that was acknowledged, or of a later one that was begun.
// Every second write makes an item that is never written again. After some writes it reads one
// of its items, which must be so at that moment already.
type writers struct {
	client *client.Client
	size   int // of a document, in bytes
	acks   atomic.Int64
	stop   atomic.Bool
	tasks  sync.WaitGroup
	each   []*writer
}

type writer struct {
	w        *writers
	number   int
	begun    [perWriter]int // newest write of each item
	acked    [perWriter]int
	once     int    // items that were written once,
	missing  []bool // and which of them were not acknowledged
	unknown  int
	reads    int
	stale    []string // reads that did not see what had been acknowledged to this writer
	failed   error
	mu       sync.Mutex
	timeline []ack
}

// ack is a write that was acknowledged.
type ack struct {
	group      uint64
	begun, end time.Time
}

// startWriters starts n writers.
func startWriters(ctx context.Context, c *client.Client, n, size int) *writers {
	w := &writers{client: c, size: size}
	for i := range n {
		one := &writer{w: w, number: i}
		w.each = append(w.each, one)
		w.tasks.Go(func() { one.run(ctx) })
	}
	return w
}

// end stops the writers and waits for them.
func (w *writers) end() error {
	w.stop.Store(true)
	w.tasks.Wait()
	for _, one := range w.each {
		if one.failed != nil {
			return fmt.Errorf("writer %d: %w", one.number, one.failed)
		}
	}
	return nil
}

func keyOf(writer, item int) string { return fmt.Sprintf("w%d-%d", writer, item%perWriter) }

// document makes a document of about a size.
func document(id, key string, n, size int) []byte {
	b := fmt.Appendf(nil, `{"id":%q,"k":%q,"n":%d,"pad":"`, id, key, n)
	return append(b, strings.Repeat("x", max(size-len(b)-2, 0))+`"}`...)
}

func (o *writer) run(ctx context.Context) {
	for n := 1; !o.w.stop.Load() && ctx.Err() == nil; n++ {
		at := n % perWriter
		key := keyOf(o.number, at)
		id := "again"
		if n%2 == 0 {
			id = fmt.Sprint("once", o.once)
		}
		begun := time.Now()
		if n%2 == 1 {
			o.begun[at] = n
		}
		each, cancel := context.WithTimeout(ctx, 20*time.Second)
		_, err := o.w.client.Upsert(each, container, engine.StringKey(key), document(id, key, n, o.w.size))
		cancel()
		known := err == nil || errors.Is(err, client.ErrResults)
		if n%2 == 0 {
			// Its number in the document is n: 2, 4, 6, … is item 0, 1, 2, …
			o.once++
			o.missing = append(o.missing, !known)
		} else if known {
			o.acked[at] = n
		}
		if n%8 == 0 && o.acked[(at+1)%perWriter] > 0 {
			o.look(ctx, (at+1)%perWriter)
		}
		switch {
		case known:
			o.w.acks.Add(1)
			o.mu.Lock()
			o.timeline = append(o.timeline, ack{group: o.w.client.GroupOf(container, engine.StringKey(key)), begun: begun, end: time.Now()})
			o.mu.Unlock()
		case errors.Is(err, client.ErrUnknown) || errors.Is(err, context.DeadlineExceeded):
			o.unknown++
		case ctx.Err() == nil:
			o.failed = err
			return
		}
	}
}

// look reads an item that this writer has written, while others go on and nodes die.
func (o *writer) look(ctx context.Context, at int) {
	each, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	key := keyOf(o.number, at)
	it, err := o.w.client.Read(each, protocol.Strong, container, engine.StringKey(key), "again")
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return // no answer, no promise
	}
	o.reads++
	n := 0
	if err == nil {
		if n, err = numberIn(it.Body, key, "again"); err != nil {
			n = -1
		}
	}
	if n < o.acked[at] || n > o.begun[at] {
		o.stale = append(o.stale, fmt.Sprintf("a read of %s: %d, write %d was acknowledged before and write %d begun", key, n, o.acked[at], o.begun[at]))
	}
}

// numberIn returns the number of the write that has written a document.
func numberIn(body []byte, key, id string) (n int, err error) {
	_, err = fmt.Sscanf(string(body), fmt.Sprintf(`{"id":%q,"k":%q,"n":%%d,`, id, key), &n)
	return n, err
}

// firstAfter returns for each group the end of the first write that was begun after a time and
// acknowledged, in the groups where there was one.
func (w *writers) firstAfter(at time.Time) map[uint64]time.Time {
	out := make(map[uint64]time.Time)
	for _, o := range w.each {
		o.mu.Lock()
		for _, a := range slices.Backward(o.timeline) {
			if a.begun.Before(at) {
				break
			}
			if first, found := out[a.group]; !found || a.end.Before(first) {
				out[a.group] = a.end
			}
		}
		o.mu.Unlock()
	}
	return out
}

// verdict is what was read back.
type verdict struct {
	checked, lost, wrong, unknown, reads, stale int
	examples                                    []string
}

// check reads every acknowledged write back, linearizably.
func (w *writers) check(ctx context.Context) (v verdict, err error) {
	var mu sync.Mutex
	var tasks sync.WaitGroup
	for _, o := range w.each {
		tasks.Go(func() {
			mine, failed := o.check(ctx)
			mu.Lock()
			defer mu.Unlock()
			v.checked += mine.checked
			v.lost += mine.lost
			v.wrong += mine.wrong
			v.unknown += o.unknown
			v.reads += o.reads
			v.stale += len(o.stale)
			v.examples = append(append(v.examples, mine.examples...), o.stale...)
			err = errors.Join(err, failed)
		})
	}
	tasks.Wait()
	return v, err
}

func (o *writer) check(ctx context.Context) (v verdict, err error) {
	judge := func(key, id string, least, most int, must bool) error {
		it, err := o.w.client.Read(ctx, protocol.Strong, container, engine.StringKey(key), id)
		v.checked++
		switch {
		case errors.Is(err, engine.ErrNotFound):
			if must {
				v.lost++
				v.examples = append(v.examples, fmt.Sprintf("%s of %s: write %d was acknowledged, the item is not there", id, key, least))
			}
			return nil
		case err != nil:
			return err
		}
		if n, err := numberIn(it.Body, key, id); err != nil || n > most {
			v.wrong++
			v.examples = append(v.examples, fmt.Sprintf("%s of %s: %.80q was never written", id, key, it.Body))
		} else if n < least {
			v.lost++
			v.examples = append(v.examples, fmt.Sprintf("%s of %s: write %d was acknowledged, the item has %d", id, key, least, n))
		}
		return nil
	}
	for at := range perWriter {
		if o.begun[at] > 0 {
			if err := judge(keyOf(o.number, at), "again", o.acked[at], o.begun[at], o.acked[at] > 0); err != nil {
				return v, err
			}
		}
	}
	for i := range o.once {
		n := 2 * (i + 1)
		if err := judge(keyOf(o.number, n), fmt.Sprint("once", i), n, n, !o.missing[i]); err != nil {
			return v, err
		}
	}
	return v, nil
}
