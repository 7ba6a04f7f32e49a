package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/transport"
)

// What makes a cluster grow.
const (
	splits = "split"
	joins  = "node joins"
)

// growTime bounds how long a split, or the move of one replica, is tried.
const growTime = time.Minute

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
		if err := t.client.Split(each, first.ID, right); err != nil {
			return err
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
		if err = t.join(ctx, node); err == nil {
			r.moved, err = t.fill(ctx, node, groups)
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
		r.gap = max(r.gap, w.longest(id, begun))
	}
	return nil
}

// longest returns the longest time between two acknowledgements in a group, of those since a time.
func (w *writers) longest(group uint64, since time.Time) (gap time.Duration) {
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
		gap = max(gap, ends[i].Sub(ends[i-1]))
	}
	return gap
}

// join makes a node that was not there, tells the others of it and starts it.
func (t *trial) join(ctx context.Context, node uint64) error {
	free, err := freeAddresses(1)
	if err != nil {
		return err
	}
	at := nodeDir(t.dir, node)
	authority, err := transport.LoadAuthority(t.dir)
	if err == nil {
		err = host.Init(at, node)
	}
	if err == nil {
		err = authority.IssueNode(at, node, time.Now())
	}
	if err != nil {
		return err
	}
	t.d.Joined = append(t.d.Joined, cluster.Node{ID: node, Address: free[0]})
	b, err := json.MarshalIndent(t.d, "", "  ")
	if err != nil {
		return err
	}
	if err = os.WriteFile(filepath.Join(t.dir, descriptionName), append(b, '\n'), 0o600); err != nil {
		return err
	}
	if err = t.start(node); err != nil {
		return err
	}
	return t.client.Introduce(ctx, node, free[0])
}

// fill moves replicas to a node until it has its share, each from the node that has most.
func (t *trial) fill(ctx context.Context, node uint64, groups []uint64) (moved int, err error) {
	on := make(map[uint64]int) // replicas of each node
	all := 0
	for _, id := range groups {
		for _, r := range t.client.Descriptor(id).Replicas {
			on[uint64(r.Node)]++
			all++
		}
	}
	for share := all / len(t.d.All()); moved < share; moved++ {
		id, from := groups[moved%len(groups)], uint64(0)
		for _, r := range t.client.Descriptor(id).Replicas {
			if n := uint64(r.Node); from == 0 || on[n] > on[from] {
				from = n
			}
		}
		each, cancel := context.WithTimeout(ctx, growTime)
		err := t.client.Move(each, id, from, node)
		cancel()
		if err = errors.Join(err, t.running()); err != nil {
			return moved, fmt.Errorf("group %d from node %d: %w", id, from, err)
		}
		on[from]--
		on[node]++
	}
	return moved, nil
}
