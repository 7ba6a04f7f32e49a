package group

import (
	"encoding/binary"
	"slices"

	"github.com/cleavestore/cleave/replica/internal/mutant"
)

// ReadID names a read.
type ReadID uint64

// ReadDone says that a read may read the partition: now, before anything else is done with
// the group.
type ReadDone struct {
	ID    ReadID
	Index uint64 // the entry that the partition must have applied, and has
}

type read struct {
	id    ReadID
	ctx   [16]byte
	index uint64 // 0: not known yet
}

// Read begins a linearizable read. Work.Reads says when it may read. If that does not come
// in time, since there is no leader or a message was lost, call EndRead and begin another.
func (g *Group) Read() (ReadID, error) {
	g.readCount++
	r := &read{id: ReadID(g.readCount)}
	copy(r.ctx[:], g.boot[:])
	binary.LittleEndian.PutUint64(r.ctx[8:], g.readCount)
	if mutant.On(mutant.ReusedReadID) {
		r.ctx = [16]byte{1}
	}
	if mutant.On(mutant.ReadWithoutIndex) && g.IsLeader() {
		r.index = max(g.state.applied, 1)
	}
	g.reads = append(g.reads, r)
	err := g.guard(func() error {
		if r.index == 0 {
			g.readIndex(func() { g.node.ReadIndex(slices.Clone(r.ctx[:])) })
		}
		return nil
	})
	return r.id, err
}

// EndRead gives a read up.
func (g *Group) EndRead(id ReadID) {
	g.reads = slices.DeleteFunc(g.reads, func(r *read) bool { return r.id == id })
}

// finishReads ends the reads that the partition has come far enough for.
func (g *Group) finishReads() {
	g.reads = slices.DeleteFunc(g.reads, func(r *read) bool {
		if r.index == 0 || g.held < r.index || g.state.applied < r.index {
			return false
		}
		g.done = append(g.done, ReadDone{ID: r.id, Index: r.index})
		return true
	})
}
