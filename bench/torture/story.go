package main

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
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
	create
	swap // a write that names the etag, after one with a wrong etag
	remove
	patch
	batch
	transaction
	fleeting // a write that expires at once
	clearLane

	// What is refused, and changes nothing.
	takenKey // a write with the unique value of another document
	existing // a create of what is there
	missing  // a replace of what is not there
)

// change is one document that an operation writes, or deletes where count is
// negative.
type change struct {
	id     string
	count  int
	size   int
	unique int
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
	opaque  bool
	seed    uint64
	number  int
	n       int               // operations so far
	docs    map[string]change // by id
	holders map[int]string    // ids by unique value
	sum     uint64            // of docs, whatever their order
	bytes   int64             // of their texts
}

// newLane returns a lane before its first operation. One of four is in the opaque
// container.
func newLane(sh shape, seed uint64, number int) *lane {
	return &lane{shape: sh, opaque: number%4 == 3, seed: seed, number: number, docs: make(map[string]change), holders: make(map[int]string)}
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

// lives is how long the document of a change lives; less than 0: for ever.
func (c change) lives() int {
	if c.count%5 == 0 {
		return 3600
	}
	return -1
}

// document is what a change writes.
func (l *lane) document(c change) string {
	b := make([]byte, 0, c.size+96)
	b = append(append(b, `{"id":"`...), c.id...)
	b = append(append(b, `","k":"`...), l.name()...)
	b = strconv.AppendInt(append(b, `","n":`...), int64(c.count), 10)
	b = strconv.AppendInt(append(b, `,"u":`...), int64(c.unique), 10)
	b = strconv.AppendInt(append(b, `,"ttl":`...), int64(c.lives()), 10)
	b = append(append(b, `,"text":"`...), c.text()...)
	return string(append(b, `"}`...))
}

// changeOf is the change that wrote a document, if there is one.
func (l *lane) changeOf(id string, body []byte) (c change, ok bool) {
	_, rest, _ := bytes.Cut(body, []byte(`","n":`))
	number, rest, _ := bytes.Cut(rest, []byte(`,"u":`))
	unique, rest, _ := bytes.Cut(rest, []byte(`,"ttl":`))
	_, rest, _ = bytes.Cut(rest, []byte(`,"text":"`))
	n, err := strconv.Atoi(string(number))
	u, errU := strconv.Atoi(string(unique))
	if err != nil || errU != nil || n < 0 || len(rest) < 2 || len(rest) > len(letters)/2 {
		return c, false
	}
	c = change{id, n, len(rest) - 2, u}
	return c, l.document(c) == string(body)
}

// next draws the operation that follows. It changes nothing.
func (l *lane) next() operation {
	rng := rand.New(rand.NewPCG(l.seed+uint64(l.number)<<32, uint64(l.n+1)))
	op := operation{n: l.n + 1}
	draw := func() change {
		c := change{id: fmt.Sprintf("i%03d", rng.IntN(l.IDs)), count: op.n, size: rng.IntN(l.Size), unique: rng.IntN(3 * l.IDs)}
		if rng.IntN(40) == 0 {
			c.size = rng.IntN(100 * l.Size)
		}
		return c
	}
	taken := func(c change) bool {
		holder, is := l.holders[c.unique]
		return is && holder != c.id
	}
	deletes := func(c change) bool {
		_, there := l.docs[c.id]
		return there && rng.IntN(3) == 0
	}
	several := func(n int) {
		for range n {
			c := draw()
			switch {
			case slices.ContainsFunc(op.changes, func(o change) bool { return o.id == c.id || o.unique == c.unique }):
			case deletes(c):
				op.changes = append(op.changes, change{id: c.id, count: -1, unique: -1})
			case !taken(c):
				op.changes = append(op.changes, c)
			}
		}
	}
	if rng.IntN(l.Clears) == 0 {
		op.verb = clearLane
		return op
	}
	p := rng.IntN(100)
	switch {
	case p < 15:
		op.verb = batch
		several(2 + rng.IntN(8))
	case p < 25:
		op.verb = transaction
		several(1 + rng.IntN(4))
	}
	if len(op.changes) > 0 {
		return op
	}
	c := draw()
	_, there := l.docs[c.id]
	switch {
	case deletes(c):
		op.verb, c.count = remove, -1
	case taken(c):
		op.verb = takenKey
	case p < 35 && there:
		op.verb = patch
	case p < 45 && there:
		op.verb = swap
	case p < 48 && there:
		op.verb = existing
	case p < 48:
		op.verb = missing
	case p < 58 && !there:
		op.verb = create
	case p < 61:
		op.verb = fleeting
	default:
		op.verb = put
	}
	if l.opaque {
		switch op.verb {
		case takenKey, patch, create, existing, missing, fleeting:
			op.verb = put
		}
	}
	op.changes = []change{c}
	return op
}

var fingerprint = maphash.MakeSeed()

func (c change) sum() uint64 { return maphash.Comparable(fingerprint, c) }

// apply carries an operation out on the model.
func (l *lane) apply(op operation) {
	l.n = op.n
	switch op.verb {
	case takenKey, existing, missing:
		return
	case clearLane:
		clear(l.docs)
		clear(l.holders)
		l.sum, l.bytes = 0, 0
		return
	}
	for _, c := range op.changes {
		if old, there := l.docs[c.id]; there {
			l.sum -= old.sum()
			l.bytes -= int64(old.size)
			delete(l.docs, c.id)
			delete(l.holders, old.unique)
		}
		if c.count >= 0 && op.verb != fleeting {
			l.add(c)
		}
	}
}

func (l *lane) add(c change) {
	l.docs[c.id] = c
	l.sum += c.sum()
	l.bytes += int64(c.size)
	if !l.opaque {
		l.holders[c.unique] = c.id
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
	other.docs, other.holders = maps.Clone(l.docs), maps.Clone(l.holders)
	return &other
}
