package memtable

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
)

// history is a fixed list of writes: write i puts key of[i] with sequence i+1.
type history struct {
	keys []item.Key // in key order
	of   []int
	seqs [][]uint64 // per key, rising
}

// newHistory draws the keys of the writes, or lets them rise.
func newHistory(rnd *rand.Rand, keys, writes, perPartition int, rising bool) *history {
	h := &history{seqs: make([][]uint64, keys)}
	for i := range keys {
		h.keys = append(h.keys, makeKey(scatter(i/perPartition), "p", fmt.Sprint(i)))
	}
	slices.SortFunc(h.keys, func(a, b item.Key) int { return item.Compare(&a, &b) })
	for i := range writes {
		k := rnd.IntN(keys)
		if rising {
			k = i * keys / writes
		}
		h.of = append(h.of, k)
		h.seqs[k] = append(h.seqs[k], uint64(i+1))
	}
	return h
}

// body returns the body of a write: its key and sequence, several times.
func (h *history) body(buf []byte, key int, seq uint64) []byte {
	for range 2 + key%9 {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(key))
		buf = binary.LittleEndian.AppendUint64(buf, seq)
	}
	return buf
}

// newest returns the sequence of the version of a key visible at maxSeq, or 0.
func (h *history) newest(key int, maxSeq uint64) uint64 {
	i, found := slices.BinarySearch(h.seqs[key], maxSeq)
	if found {
		return maxSeq
	}
	if i == 0 {
		return 0
	}
	return h.seqs[key][i-1]
}

// TestConcurrent runs one writer beside readers that check every answer at
// their bound against the history, and order and integrity beyond it.
func TestConcurrent(t *testing.T) {
	rnd := randtest.New(t)
	for range 12 {
		runConcurrent(t, rnd, newHistory(rnd, 2000+rnd.IntN(3000), 20_000, 20, false))
		if testing.Short() || t.Failed() {
			return
		}
	}
}

// TestConcurrentSplits is TestConcurrent in one logical partition, whose leaves
// split beneath the readers.
func TestConcurrentSplits(t *testing.T) {
	rnd := randtest.New(t)
	for i := range 6 {
		runConcurrent(t, rnd, newHistory(rnd, 4000, 10_000, 4000, i%3 == 0))
		if testing.Short() || t.Failed() {
			return
		}
	}
}

func runConcurrent(t *testing.T, rnd *rand.Rand, h *history) {
	table := newTable(t, 1<<rnd.IntN(18))
	var published atomic.Uint64
	var done atomic.Bool
	var wg sync.WaitGroup
	for _, read := range []func(*reader){(*reader).gets, (*reader).scans, (*reader).unbounded} {
		r := &reader{t: t, h: h, table: table, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 2))}
		wg.Go(func() {
			for !done.Load() && !t.Failed() {
				r.maxSeq = published.Load()
				read(r)
			}
		})
	}
	buf := make([]byte, 0, 1024)
	for i, key := range h.of {
		seq := uint64(i + 1)
		if err := table.Put(&h.keys[key], &item.Version{Seq: seq, Body: h.body(buf[:0], key, seq)}, false); err != nil {
			t.Error(err)
			break
		}
		published.Store(seq)
	}
	done.Store(true)
	wg.Wait()
	last := &reader{t: t, h: h, table: table, rnd: rnd, maxSeq: uint64(len(h.of))}
	last.gets()
	last.scans()
	last.unbounded()
}

type reader struct {
	t      *testing.T
	h      *history
	table  *Table
	rnd    *rand.Rand
	maxSeq uint64
	body   []byte
}

// intact reports whether v is what the history wrote.
func (r *reader) intact(key int, v *item.Version) bool {
	r.body = r.h.body(r.body[:0], key, v.Seq)
	return string(r.body) == string(v.Body)
}

func (r *reader) gets() {
	for range 50 {
		key := r.rnd.IntN(len(r.h.keys))
		want := r.h.newest(key, r.maxSeq)
		var v item.Version
		if ok := r.table.Get(r.h.keys[key].Lookup(), r.maxSeq, &v); ok != (want != 0) || ok && (v.Seq != want || !r.intact(key, &v)) {
			r.t.Errorf("Get of key %d at %d: %v %d, want %d", key, r.maxSeq, ok, v.Seq, want)
		}
		if r.table.Latest(r.h.keys[key].Lookup(), &v) != true && want != 0 || v.Seq < want {
			r.t.Errorf("Latest of key %d is %d, want %d at least", key, v.Seq, want)
		}
	}
}

// scans starts at a random key and follows the history for a while, forward
// and then back.
func (r *reader) scans() {
	key := r.rnd.IntN(len(r.h.keys))
	c := r.table.Cursor(r.maxSeq)
	ok := c.SeekGE(&r.h.keys[key])
	for range 100 {
		for key < len(r.h.keys) && r.h.newest(key, r.maxSeq) == 0 {
			key++
		}
		if !r.agree("forward", c, ok, key, key < len(r.h.keys)) || !ok {
			break
		}
		key++
		ok = c.Next()
	}
	key = r.rnd.IntN(len(r.h.keys))
	ok = c.SeekLT(&r.h.keys[key])
	for range 100 {
		key--
		for key >= 0 && r.h.newest(key, r.maxSeq) == 0 {
			key--
		}
		if !r.agree("backward", c, ok, key, key >= 0) || !ok {
			break
		}
		ok = c.Prev()
	}
	if r.rnd.IntN(20) > 0 {
		return
	}
	w := r.table.Walk(r.maxSeq)
	for key, seqs := range r.h.seqs {
		i, _ := slices.BinarySearch(seqs, r.maxSeq+1)
		for i--; i >= 0; i-- {
			if !w.Next() || w.Version().Seq != seqs[i] || item.Compare(w.Key(), &r.h.keys[key]) != 0 {
				r.t.Errorf("Walk at %d misses version %d of key %d", r.maxSeq, seqs[i], key)
				return
			}
		}
	}
	if w.Next() {
		r.t.Errorf("Walk at %d goes on", r.maxSeq)
	}
}

func (r *reader) agree(way string, c *Cursor, ok bool, key int, want bool) bool {
	if ok != want {
		r.t.Errorf("%s at %d, key %d: %v, want %v", way, r.maxSeq, key, ok, want)
		return false
	}
	if ok && (item.Compare(c.Key(), &r.h.keys[key]) != 0 ||
		c.Version().Seq != r.h.newest(key, r.maxSeq) || !r.intact(key, c.Version())) {
		r.t.Errorf("%s at %d: key %s sequence %d, want key %d", way, r.maxSeq, c.Key().ID, c.Version().Seq, key)
		return false
	}
	return true
}

// unbounded reads while keys appear, mostly just behind those that the writer
// is about to put: order and the seek's side must hold.
func (r *reader) unbounded() {
	next := int(min(r.maxSeq+r.rnd.Uint64N(3), uint64(len(r.h.of)-1)))
	from := &r.h.keys[min(r.h.of[next]+r.rnd.IntN(5), len(r.h.keys)-1)]
	steps := 1 + r.rnd.IntN(5)
	if r.rnd.IntN(500) == 0 {
		steps = len(r.h.keys)
	}
	c := r.table.Cursor(math.MaxUint64)
	last, least := *from, 0
	for n, ok := 0, c.SeekGE(from); ok && n < steps; n++ {
		if item.Compare(c.Key(), &last) < least {
			r.t.Error("forward cursor out of order")
			return
		}
		last, least = *c.Key(), 1
		ok = c.Next()
	}
	last = *from
	for n, ok := 0, c.SeekLT(from); ok && n < steps; n++ {
		if item.Compare(c.Key(), &last) >= 0 {
			r.t.Error("backward cursor out of order")
			return
		}
		last = *c.Key()
		ok = c.Prev()
	}
}
