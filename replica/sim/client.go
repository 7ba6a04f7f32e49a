package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
)

const (
	registers = 4
	counters  = 3
	// perCounter is how many increments a counter takes: each adds another power of 4.
	perCounter = 24
)

// client does one thing after the other.
type client struct {
	w        *world
	id       int
	left     int
	finished bool
	leader   uint64 // that it knows of
	after    uint64 // newest entry that it knows of
	number   uint64 // of its operations
}

func (w *world) newClient(id int) {
	c := &client{w: w, id: id, left: w.plan.ops}
	w.clients = append(w.clients, c)
	w.after(w.about(time.Second), c.next)
}

// next begins the next operation.
func (c *client) next() {
	if c.left == 0 {
		c.finished = true
		return
	}
	c.left--
	w := c.w
	switch w.oneOf(4, 4, 2) {
	case 0:
		key := w.rng.IntN(registers)
		value := c.id*10000 + int(c.number) + 1
		op := w.oracle.begins(c.id, key, true, value)
		c.write(registerKey(key), command.Operation{Kind: command.Upsert, Body: fmt.Appendf(nil, `{"id":"r%d","k":%s,"v":%d}`, key, registerKey(key), value)}, func(known bool) {
			op.ends(w, value, known)
			c.pause()
		})
	case 1:
		key := w.rng.IntN(registers)
		op := w.oracle.begins(c.id, key, false, 0)
		c.read(registerKey(key), "r"+strconv.Itoa(key), "/v", func(value int64) {
			op.ends(w, int(value), true)
			c.pause()
		})
	case 2:
		k := w.rng.IntN(counters)
		inc := w.oracle.increment(k)
		if inc == nil {
			w.after(0, c.next)
			return
		}
		edit := command.Edit{Kind: command.EditIncrement, Path: "/n", By: inc.by}
		c.write(counterKey, command.Operation{Kind: command.Patch, ID: "c" + strconv.Itoa(k), Edits: []command.Edit{edit}}, func(known bool) {
			inc.known = known
			c.pause()
		})
	}
}

// pause is before the next operation.
func (c *client) pause() { c.w.after(c.w.about(100*time.Millisecond), c.next) }

// makeCounters makes the counters, from number k on.
func (c *client) makeCounters(k int, then func()) {
	if k == counters {
		c.finished = true
		then()
		return
	}
	create := command.Operation{Kind: command.Create, Body: fmt.Appendf(nil, `{"id":"c%d","k":%s,"n":0}`, k, counterKey)}
	c.propose(counterKey, create, engine.ErrExists, func(known bool) {
		if known {
			k++
		}
		c.makeCounters(k, then)
	})
}

var counterKey = engine.StringKey("counters")

func registerKey(i int) engine.PartitionKey { return engine.StringKey("p" + strconv.Itoa(i%2)) }

// target chooses the replica to ask.
func (c *client) target() *node {
	if n := c.w.node(c.leader); n != nil && n.up && c.w.chance(0.8) {
		return n
	}
	return c.w.nodes[c.w.rng.IntN(len(c.w.nodes))]
}

// write proposes a command until its outcome is known or it has expired.
func (c *client) write(key engine.PartitionKey, o command.Operation, done func(known bool)) {
	c.propose(key, o, nil, done)
}

// propose is write; the group may refuse the command with an error that matches allowed.
func (c *client) propose(key engine.PartitionKey, o command.Operation, allowed error, done func(known bool)) {
	c.number++
	cmd := &command.Command{After: c.after, Batches: []command.Batch{{Key: key, Operations: []command.Operation{o}}}}
	binary.BigEndian.PutUint64(cmd.ID[:], uint64(c.id)+1)
	binary.BigEndian.PutUint64(cmd.ID[8:], c.number)
	w := c.w
	ended := false
	proposed := false
	attempt := 0
	var try func()
	again := func(number int, d time.Duration) {
		w.after(d, func() {
			if !ended && attempt == number {
				try()
			}
		})
	}
	end := func(number int, out group.Outcome) {
		if ended {
			return
		}
		switch {
		case out.Err == nil:
			if !out.Duplicate && len(out.Results) == 1 && out.Results[0].Err != nil && (allowed == nil || !errors.Is(out.Results[0].Err, allowed)) {
				w.violated("client %d: command %d was refused: %v", c.id, c.number, out.Results[0].Err)
			}
			if out.Duplicate {
				w.counts["duplicates"]++
			}
			c.after = max(c.after, out.Index)
		case errors.Is(out.Err, group.ErrExpired):
			w.counts["expired"]++
		case errors.Is(out.Err, group.ErrUnknown), errors.Is(out.Err, group.ErrBusy), errors.Is(out.Err, group.ErrNotLeader):
			if attempt == number {
				again(number, w.about(100*time.Millisecond))
			}
			return
		default:
			w.violated("client %d: command %d: %v", c.id, c.number, out.Err)
		}
		ended = true
		w.note("client %d: command %d ends: entry %d, duplicate %v, %v", c.id, c.number, out.Index, out.Duplicate, out.Err)
		done(out.Err == nil)
	}
	try = func() {
		attempt++
		number := attempt
		n := c.target()
		again(number, time.Second+w.about(2*time.Second)) // gives this attempt up
		w.after(w.about(w.plan.latency), func() {
			if ended || !n.up {
				return
			}
			if !proposed && w.chance(0.9) {
				cmd.After = max(cmd.After, n.group.Applied())
			}
			proposed = true
			err := n.group.Propose(cmd)
			switch {
			case errors.Is(err, group.ErrNotLeader), errors.Is(err, group.ErrBusy):
				c.leader = n.group.Leader()
				if attempt == number {
					attempt++
					again(attempt, w.about(50*time.Millisecond))
				}
			case err != nil:
				n.check(err)
			default:
				w.counts["proposals"]++
				c.leader = n.id
				n.proposals[cmd.ID] = func(out group.Outcome) {
					w.after(w.about(w.plan.latency), func() { end(number, out) })
				}
			}
			n.pump()
			// The answer may come while the client asks elsewhere already: impatience
			// makes duplicates.
			if w.chance(0.05) && attempt == number {
				attempt++
				again(attempt, 0)
			}
		})
	}
	try()
}

// read reads an item, linearizably, at any replica. done gets the number at path, 0 if there
// is no item.
func (c *client) read(key engine.PartitionKey, id, path string, done func(int64)) {
	w := c.w
	ended := false
	attempt := 0
	var try func()
	try = func() {
		attempt++
		number := attempt
		n := c.target()
		if w.chance(0.5) {
			n = w.nodes[w.rng.IntN(len(w.nodes))]
		}
		w.after(w.about(w.plan.latency), func() {
			if ended || !n.up {
				return
			}
			life := n.life
			rid, err := n.group.Read()
			n.check(err)
			if !n.up {
				return
			}
			n.reads[rid] = func() {
				value := n.number(key, id, path)
				index := n.group.Applied()
				if !n.up {
					return
				}
				w.after(w.about(w.plan.latency), func() {
					if ended {
						return
					}
					ended = true
					c.after = max(c.after, index)
					w.counts["reads"]++
					w.note("client %d: read %s at %d: %d", c.id, id, n.id, value)
					done(value)
				})
			}
			n.pump()
			w.after(200*time.Millisecond+w.about(300*time.Millisecond), func() {
				if n.up && n.life == life && n.reads[rid] != nil {
					delete(n.reads, rid)
					n.group.EndRead(rid)
				}
			})
		})
		w.after(300*time.Millisecond+w.about(500*time.Millisecond), func() {
			if !ended && attempt == number {
				try()
			}
		})
	}
	try()
}

// number reads a number of an item.
func (n *node) number(key engine.PartitionKey, id, path string) int64 {
	it, err := n.c.Read(context.Background(), key, id)
	if errors.Is(err, engine.ErrNotFound) {
		return 0
	}
	if err != nil {
		n.check(err)
		return 0
	}
	v, err := numberOf(it.Body, path)
	if err != nil {
		n.w.violated("replica %d: %s: %v in %s", n.id, id, err, it.Body)
	}
	return v
}
