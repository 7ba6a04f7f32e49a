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
	registers = 6
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
	ended    bool                           // it has given up what it was at: its cluster was promoted
	leaders  map[engine.PartitionKey]*node  // that it knows of
	after    map[engine.PartitionKey]uint64 // newest entry that it knows of, of the groups that have had the key
	number   uint64                         // of its operations
}

func (w *world) newClient(id int) *client {
	c := &client{w: w, id: id, left: w.plan.ops, leaders: make(map[engine.PartitionKey]*node), after: make(map[engine.PartitionKey]uint64)}
	w.clients = append(w.clients, c)
	return c
}

// next begins the next operation.
func (c *client) next() {
	if c.ended {
		return
	}
	if c.left == 0 {
		c.finished = true
		return
	}
	c.left--
	w := c.w
	switch w.oneOf(4, 4, 2, 2) {
	case 0:
		key := w.rng.IntN(registers)
		value := c.id*10000 + int(c.number) + 1
		o := command.Operation{Kind: command.Upsert}
		forEver := ""
		if w.chance(0.2) {
			o.TTL = w.about(3*time.Second) + time.Second
		} else if w.defaults.oneIn(3) {
			forEver = w.defaults.forEver()
		}
		o.Body = fmt.Appendf(nil, `{"id":"r%d","k":%s,"v":%d%s}`, key, registerKey(key), value, forEver)
		op := w.oracle.begins(c.id, registerInput{key: key, write: true, value: value, expires: o.TTL > 0, unsaid: o.TTL == 0 && forEver == ""})
		c.write(registerKey(key), o, func(at place) {
			op.ends(w, value, at)
			c.pause()
		})
	case 1:
		key := w.rng.IntN(registers)
		op := w.oracle.begins(c.id, registerInput{key: key})
		c.read(registerKey(key), "r"+strconv.Itoa(key), "/v", func(value int64, at place) {
			op.ends(w, int(value), at)
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
		c.write(counterKey, command.Operation{Kind: command.Patch, ID: "c" + strconv.Itoa(k), Edits: []command.Edit{edit}}, func(at place) {
			inc.at = at
			if at.known() {
				inc.least = 1
			}
			c.pause()
		})
	case 3:
		w.lookInside()
		w.after(0, c.next)
	}
}

// lookInside reads a key at a machine, past all groups: what the machine has of no group, it
// does not have.
func (w *world) lookInside() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !n.up {
		return
	}
	key := keys[w.rng.IntN(len(keys))]
	r := n.covering(key)
	_, err := n.c.Read(context.Background(), key, "none")
	switch here := !errors.Is(err, engine.ErrNotHere); {
	case err != nil && here && !errors.Is(err, engine.ErrNotFound):
		n.check(err)
	case here && r == nil:
		w.violated("node %d serves %s, which it has of no group", n.id, key)
	case !here && r != nil && r.caughtUp():
		w.violated("node %d, group %d: %s is not there: %v", n.id, r.gid, key, err)
	}
	w.counts["looks inside"]++
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
	create := command.Operation{Kind: command.Create, Body: fmt.Appendf(nil, `{"id":"c%d","k":%s,"n":0%s}`, k, counterKey, c.w.defaults.forEver())}
	c.propose(counterKey, create, engine.ErrExists, func(at place) {
		if at.known() {
			c.w.oracle.made[k] = at
			k++
		} else {
			c.w.oracle.tried[k] = true
		}
		c.makeCounters(k, then)
	})
}

var counterKey = engine.StringKey("counters")

// registerKey: two registers have one key.
func registerKey(i int) engine.PartitionKey { return engine.StringKey("p" + strconv.Itoa(i/2)) }

// keys are all partition keys.
var keys = []engine.PartitionKey{counterKey, registerKey(0), registerKey(2), registerKey(4)}

// target chooses the machine to ask.
func (c *client) target(key engine.PartitionKey) *node {
	if n := c.leaders[key]; n != nil && n.up && c.w.chance(0.8) {
		return n
	}
	return c.w.nodes[c.w.rng.IntN(len(c.w.nodes))]
}

// place is the entry of a group with which a write took place, or which a read has seen last. The zero
// value stands for one that is not known.
type place struct {
	gid, index uint64
	by         command.ID // of a write: the command
}

func (p place) known() bool { return p.index > 0 }

// write proposes a command until its outcome is known or it has expired. done gets the entry that decided it.
func (c *client) write(key engine.PartitionKey, o command.Operation, done func(place)) {
	c.propose(key, o, nil, done)
}

// propose is write; the group may refuse the command with an error that matches allowed.
func (c *client) propose(key engine.PartitionKey, o command.Operation, allowed error, done func(place)) {
	c.number++
	cmd := &command.Command{After: c.after[key], Batches: []command.Batch{{Key: key, Operations: []command.Operation{o}}}}
	binary.BigEndian.PutUint64(cmd.ID[:], uint64(c.id)+1)
	binary.BigEndian.PutUint64(cmd.ID[8:], c.number)
	w := c.w
	ended := false
	proposed := false
	attempt := 0
	var try func()
	again := func(number int, d time.Duration) {
		w.after(d, func() {
			if !ended && !c.ended && attempt == number {
				try()
			}
		})
	}
	end := func(number int, out group.Outcome, by uint64) {
		if ended || c.ended {
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
			c.after[key] = max(c.after[key], out.Index)
		case errors.Is(out.Err, group.ErrExpired):
			w.counts["expired"]++
		case errors.Is(out.Err, group.ErrUnknown), errors.Is(out.Err, group.ErrBusy), errors.Is(out.Err, group.ErrNotLeader), errors.Is(out.Err, group.ErrRange):
			if errors.Is(out.Err, group.ErrRange) {
				w.counts["wrong half"]++
			}
			if attempt == number {
				again(number, w.about(100*time.Millisecond))
			}
			return
		default:
			w.violated("client %d: command %d: %v", c.id, c.number, out.Err)
		}
		ended = true
		var at place
		if out.Err == nil {
			at = place{by, out.Index, cmd.ID}
			w.region.acked = append(w.region.acked, acked{key, at, w.now})
		}
		w.note("client %d: command %d ends: entry %d, duplicate %v, %v", c.id, c.number, out.Index, out.Duplicate, out.Err)
		done(at)
	}
	try = func() {
		attempt++
		number := attempt
		n := c.target(key)
		again(number, time.Second+w.about(2*time.Second)) // gives this attempt up
		w.after(w.about(w.plan.latency), func() {
			if ended || c.ended || !n.up || !w.region.serves(n) {
				return
			}
			r := n.covering(key)
			if r == nil {
				if attempt == number {
					attempt++
					again(attempt, w.about(50*time.Millisecond))
				}
				return
			}
			if !proposed && w.chance(0.9) {
				cmd.After = max(cmd.After, r.group.Applied())
			}
			proposed = true
			// The group keeps the command, so each proposal is one of its own.
			asked := *cmd
			if w.chance(0.5) {
				r.group.Hurry()
			}
			err := r.group.Propose(&asked)
			switch {
			case errors.Is(err, group.ErrNotLeader), errors.Is(err, group.ErrBusy):
				c.leaders[key] = w.owner[r.group.Leader()]
				if attempt == number {
					attempt++
					again(attempt, w.about(50*time.Millisecond))
				}
			case err != nil:
				n.check(err)
			default:
				w.counts["proposals"]++
				c.leaders[key] = n
				r.proposals[cmd.ID] = func(out group.Outcome) {
					by := r.gid
					w.after(w.about(w.plan.latency), func() { end(number, out, by) })
				}
			}
			r.pump()
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
// is no item, and the newest entry that the replica had.
func (c *client) read(key engine.PartitionKey, id, path string, done func(int64, place)) {
	w := c.w
	ended := false
	attempt := 0
	var try func()
	try = func() {
		attempt++
		number := attempt
		n := c.target(key)
		if w.chance(0.5) {
			n = w.nodes[w.rng.IntN(len(w.nodes))]
		}
		w.after(w.about(w.plan.latency), func() {
			if ended || c.ended || !n.up || !w.region.serves(n) {
				return
			}
			r := n.covering(key)
			if r == nil {
				return
			}
			life := n.life
			rid, err := r.group.Read()
			n.check(err)
			if !n.up {
				return
			}
			r.reads[rid] = func() {
				if n.covering(key) != r {
					w.counts["wrong half"]++
					return // the group has split meanwhile: ask again
				}
				value := r.number(key, id, path)
				at := place{gid: r.gid, index: r.group.Applied()}
				if !n.up {
					return
				}
				w.after(w.about(w.plan.latency), func() {
					if ended || c.ended {
						return
					}
					ended = true
					c.after[key] = max(c.after[key], at.index)
					w.counts["reads"]++
					w.note("client %d: read %s at %d: %d", c.id, id, n.id, value)
					done(value, at)
				})
			}
			r.pump()
			w.after(200*time.Millisecond+w.about(300*time.Millisecond), func() {
				if n.up && n.life == life && r.reads[rid] != nil {
					delete(r.reads, rid)
					r.group.EndRead(rid)
				}
			})
		})
		w.after(300*time.Millisecond+w.about(500*time.Millisecond), func() {
			if !ended && !c.ended && attempt == number {
				try()
			}
		})
	}
	try()
}

// number reads a number of an item.
func (r *replica) number(key engine.PartitionKey, id, path string) int64 {
	it, err := r.c.Read(context.Background(), key, id)
	if errors.Is(err, engine.ErrNotFound) {
		return 0
	}
	if err != nil {
		r.check(err)
		return 0
	}
	v, err := numberOf(it.Body, path)
	if err != nil {
		r.w.violated("node %d: %s: %v in %s", r.node.id, id, err, it.Body)
	}
	return v
}
