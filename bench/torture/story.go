package main

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/engine"
)

// lanes is how many logical partitions are written, each by one goroutine.
const lanes = 8

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
	seed   uint64
	number int
	n      int               // operations so far
	docs   map[string]string // by id
	sum    uint64            // of docs, whatever their order
}

func newLane(seed uint64, number int) *lane {
	return &lane{seed: seed, number: number, docs: make(map[string]string)}
}

func (l *lane) key() engine.PartitionKey { return engine.StringKey(l.name()) }
func (l *lane) name() string             { return fmt.Sprintf("lane%d", l.number) }

// document is what a change writes.
func (l *lane) document(c change) string {
	return fmt.Sprintf(`{"id":%q,"k":%q,"n":%d,"text":%q}`, c.id, l.name(), c.count, strings.Repeat(string(rune('a'+c.count%26)), c.size))
}

// next draws the operation that follows. It changes nothing.
func (l *lane) next() operation {
	rng := rand.New(rand.NewPCG(l.seed+uint64(l.number)<<32, uint64(l.n+1)))
	op := operation{n: l.n + 1}
	draw := func(deletes bool) change {
		c := change{id: fmt.Sprintf("i%03d", rng.IntN(200)), count: op.n, size: rng.IntN(600)}
		if rng.IntN(40) == 0 {
			c.size = rng.IntN(60_000)
		}
		if _, there := l.docs[c.id]; deletes && there && rng.IntN(3) == 0 {
			c.count = -1
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
	switch p := rng.IntN(100); {
	case p < 1:
		op.verb = clearLane
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

func sumOf(id, body string) uint64 { return maphash.String(fingerprint, id+"\x00"+body) }

// apply carries an operation out on the model.
func (l *lane) apply(op operation) {
	l.n = op.n
	if op.verb == clearLane {
		l.docs, l.sum = make(map[string]string), 0
		return
	}
	for _, c := range op.changes {
		if old, there := l.docs[c.id]; there {
			l.sum -= sumOf(c.id, old)
			delete(l.docs, c.id)
		}
		if c.count >= 0 {
			body := l.document(c)
			l.docs[c.id] = body
			l.sum += sumOf(c.id, body)
		}
	}
}

// advance carries out operations up to number n.
func (l *lane) advance(n int) {
	for l.n < n {
		l.apply(l.next())
	}
}
