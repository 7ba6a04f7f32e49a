package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/replica/cluster"
)

// What makes a cluster grow.
const (
	splits = "split"
	joins  = "node joins"
)

// growTime bounds how long a split is tried, or a node that joins waits for its share.
const growTime = 2 * time.Minute

// grow splits a group and has a node join that takes its share of the replicas, while writers
// write.
func (c *demoCommand) grow(ctx context.Context, t *trial, w *writers) (out []round, err error) {
	var groups []uint64
	for _, g := range t.d.Groups() {
		groups = append(groups, g.ID)
	}
	first := t.d.Groups()[0]
	right := first.ID&^(1<<32-1) | 1<<20
	r := round{what: splits, node: first.Replicas[0], groups: 1}
	halves := []uint64{first.ID, right}
	err = r.grow(w, halves, func() error {
		each, cancel := context.WithTimeout(ctx, growTime)
		defer cancel()
		begun := time.Now()
		if failed := t.client.Split(each, first.ID, right); failed != nil {
			return failed
		}
		return (&round{what: splits, node: r.node}).wait(ctx, w, map[uint64][]uint64{r.node: halves}, begun)
	})
	if err != nil {
		return nil, fmt.Errorf("split of group %d: %w", first.ID, err)
	}
	out = append(out, r)
	time.Sleep(c.Pause)
	groups = append(groups, right)
	node := uint64(len(t.d.All()) + 1)
	r = round{what: joins, node: node}
	err = r.grow(w, groups, func() (err error) {
		if err = t.join(node); err == nil {
			r.moved, err = t.filled(ctx, node, groups)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("node %d joins: %w", node, err)
	}
	time.Sleep(c.Pause)
	return append(out, r), nil
}

// grow does something and notes how long the writers had to wait in each of some groups.
func (r *round) grow(w *writers, groups []uint64, do func() error) error {
	before, begun := w.acks.Load(), time.Now()
	if err := do(); err != nil {
		return err
	}
	r.back, r.acks = time.Since(begun), w.acks.Load()-before
	for _, id := range groups {
		pause, end := w.longest(id, begun)
		if r.pauses = append(r.pauses, pause); pause > r.gap {
			r.gap, r.ended = pause, end.Sub(begun)
		}
	}
	return nil
}

// longest returns the longest time between two acknowledgements in a group, of those since a time, and when it ended.
func (w *writers) longest(group uint64, since time.Time) (gap time.Duration, end time.Time) {
	var ends []time.Time
	for _, o := range w.each {
		o.mu.Lock()
		for _, a := range slices.Backward(o.timeline) {
			if a.end.Before(since) {
				break
			}
			if a.group == group {
				ends = append(ends, a.end)
			}
		}
		o.mu.Unlock()
	}
	slices.SortFunc(ends, time.Time.Compare)
	for i := 1; i < len(ends); i++ {
		if d := ends[i].Sub(ends[i-1]); d > gap {
			gap, end = d, ends[i]
		}
	}
	return gap, end
}

// join adds a node as the command add does, and starts it. The others hear of it from the metadata store.
func (t *trial) join(node uint64) error {
	free, err := freeAddresses(1)
	if err != nil {
		return err
	}
	if t.d, _, err = addNode(t.dir, cluster.Node{Address: free[0]}, 0); err != nil {
		return err
	}
	return t.start(node)
}

// filled waits until the planner has given a node its share of the replicas of groups, and nothing
// moves any more. It returns how many replicas the node has.
func (t *trial) filled(ctx context.Context, node uint64, groups []uint64) (has int, err error) {
	for end := time.Now().Add(growTime); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = errors.Join(ctx.Err(), t.running()); err != nil {
			return has, err
		}
		t.client.Refresh(ctx)
		on := make(map[uint64]int) // replicas of each node
		all, settled := 0, true
		for _, id := range groups {
			g := t.client.Descriptor(id)
			settled = settled && g != nil && g.Voters() == 3 && len(g.Replicas) == 3
			if g == nil {
				continue
			}
			for _, r := range g.Replicas {
				on[uint64(r.Node)]++
				all++
			}
		}
		if has = on[node]; settled && has >= all/len(t.d.All()) {
			return has, nil
		}
	}
	return has, fmt.Errorf("node %d has %d replicas after %v", node, has, growTime)
}
