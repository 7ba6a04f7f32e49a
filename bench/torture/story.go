package main

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/cleavestore/cleave/engine"
)

// shape says how much a story writes.
type shape struct {
	Lanes  int // logical partitions, each written by one goroutine
	IDs    int // documents of a lane, at most
	Size   int // of a document, in bytes, at most; one of 40 is a hundred times as large
	Clears int // one operation of so many deletes the whole lane
}

// small is the shape of stories that end soon.
var small = shape{Lanes: 8, IDs: 200, Size: 600, Clears: 100}

// verb is what an operation does.
type verb uint8

const (
	put verb = iota
	remove
	patch
	batch
	transaction
	clearLane
)

// change is one document that an operation writes, or deletes where count is
// negative.
type change struct {
	id    string
	count int
	size  int
}

// operation is operation n of a lane.
type operation struct {
	n       int
	verb    verb
	changes []change
}

// lane is the model of a logical partition after some number of operations.
type lane struct {
	shape
	seed   uint64
	number int
	n      int               // operations so far
	docs   map[string]change // by id
	sum    uint64            // of docs, whatever their order
	bytes  int64             // of their texts
}

func newLane(sh shape, seed uint64, number int) *lane {
	return &lane{shape: sh, seed: seed, number: number, docs: make(map[string]change)}
}

func (l *lane) key() engine.PartitionKey { return engine.StringKey(l.name()) }
func (l *lane) name() string             { return "lane" + strconv.Itoa(l.number) }

// letters is what texts are pieces of.
var letters = func() string {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 256<<10)
	for i := range b {
		b[i] = 'a' + byte(rng.IntN(26))
	}
	return string(b)
}()

// text is what a change writes beside its number.
func (c change) text() string {
	at := c.count * 7919 & (128<<10 - 1)
	return letters[at : at+c.size]
}

// document is what a change writes.
func (l *lane) document(c change) string {
	b := make([]byte, 0, c.size+64)
	b = append(append(b, `{"id":"`...), c.id...)
	b = append(append(b, `","k":"`...), l.name()...)
	b = strconv.AppendInt(append(b, `","n":`...), int64(c.count), 10)
	b = append(append(b, `,"text":"`...), c.text()...)
	return string(append(b, `"}`...))
}

// changeOf is the change that wrote a document, if there is one.
func (l *lane) changeOf(id string, body []byte) (c change, ok bool) {
	_, rest, _ := bytes.Cut(body, []byte(`","n":`))
	number, rest, _ := bytes.Cut(rest, []byte(`,"text":"`))
	count, err := strconv.Atoi(string(number))
	if err != nil || count < 0 || len(rest) < 2 {
		return c, false
	}
	c = change{id, count, len(rest) - 2}
	return c, c.size < len(letters)/2 && l.document(c) == string(body)
}

// next draws the operation that follows. It changes nothing.
func (l *lane) next() operation {
	rng := rand.New(rand.NewPCG(l.seed+uint64(l.number)<<32, uint64(l.n+1)))
	op := operation{n: l.n + 1}
	draw := func(deletes bool) change {
		c := change{id: fmt.Sprintf("i%03d", rng.IntN(l.IDs)), count: op.n, size: rng.IntN(l.Size)}
		if rng.IntN(40) == 0 {
			c.size = rng.IntN(100 * l.Size)
		}
		if _, there := l.docs[c.id]; deletes && there && rng.IntN(3) == 0 {
			c.count, c.size = -1, 0
		}
		return c
	}
	several := func(n int) {
		for range n {
			c := draw(true)
			if !slices.ContainsFunc(op.changes, func(o change) bool { return o.id == c.id }) {
				op.changes = append(op.changes, c)
			}
		}
	}
	if rng.IntN(l.Clears) == 0 {
		op.verb = clearLane
		return op
	}
	switch p := rng.IntN(100); {
	case p < 15:
		op.verb = batch
		several(2 + rng.IntN(8))
	case p < 25:
		op.verb = transaction
		several(1 + rng.IntN(4))
	default:
		op.verb = put
		op.changes = []change{draw(true)}
		if op.changes[0].count < 0 {
			op.verb = remove
		} else if _, there := l.docs[op.changes[0].id]; there && p < 40 {
			op.verb = patch
		}
	}
	return op
}

var fingerprint = maphash.MakeSeed()

func (c change) sum() uint64 { return maphash.Comparable(fingerprint, c) }

// apply carries an operation out on the model.
func (l *lane) apply(op operation) {
	l.n = op.n
	if op.verb == clearLane {
		clear(l.docs)
		l.sum, l.bytes = 0, 0
		return
	}
	for _, c := range op.changes {
		if old, there := l.docs[c.id]; there {
			l.sum -= old.sum()
			l.bytes -= int64(old.size)
			delete(l.docs, c.id)
		}
		if c.count >= 0 {
			l.docs[c.id] = c
			l.sum += c.sum()
			l.bytes += int64(c.size)
		}
	}
}

// advance carries out operations up to number n.
func (l *lane) advance(n int) {
	for l.n < n {
		l.apply(l.next())
	}
}

// copy returns a lane that goes its own way.
func (l *lane) copy() *lane {
	other := *l
	other.docs = make(map[string]change, len(l.docs))
	for id, c := range l.docs {
		other.docs[id] = c
	}
	return &other
}
