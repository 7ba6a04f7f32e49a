package raftlog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"sort"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/wal"
)

// Group is the log of one group. It implements raft.Storage. Its methods are safe for
// concurrent use, except that one goroutine at a time appends, truncates and installs.
type Group struct {
	store   *Store
	stream  wal.Stream
	id      uint64
	replica uint64

	mu struct {
		sync.Mutex
		hard hardState
		base Base
		tail
		// installing is the base of an installation that has begun and not ended; nil: none.
		installing *Base
		// committed is an entry up to which records say that all were committed, durably.
		committed uint64
	}
}

// Store returns the logs of all groups of the node.
func (g *Group) Store() *Store { return g.store }

// ID returns the id of the group.
func (g *Group) ID() uint64 { return g.id }

// Replica returns the id that this replica has in the group.
func (g *Group) Replica() uint64 { return g.replica }

// Base returns the state behind which the log begins. It must not be changed.
func (g *Group) Base() Base {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.base
}

// Bytes returns the size of the data of the entries, in bytes.
func (g *Group) Bytes() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.bytes
}

// Worthwhile reports whether a truncation up to an entry drops more than it writes, if the state is as long as that of the base.
func (g *Group) Worthwhile(index uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	drops := int64(inlineBytes) // the manifest is written anyway
	for i := range g.mu.slots[:min(index, g.lastLocked())-min(index, g.mu.base.Index)] {
		drops += g.mu.slots[i].size + entryBytes
	}
	return drops >= int64(len(g.mu.base.State))
}

// Old returns the newest entry in a file of the log behind which at least so many others have been begun; 0 if there is none.
func (g *Group) Old(files uint64) uint64 {
	newest := g.store.log.Newest()
	g.mu.Lock()
	defer g.mu.Unlock()
	n := sort.Search(len(g.mu.slots), func(i int) bool { return g.mu.slots[i].File+files > newest })
	if n == 0 {
		return 0
	}
	return g.mu.base.Index + uint64(n)
}

// Installing returns the base of an installation that has begun and not ended, nil if there
// is none. While there is one, the owner must call EndInstall before anything else.
func (g *Group) Installing() *Base {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.installing
}

// InitialState implements raft.Storage. The ConfState is that of the base.
func (g *Group) InitialState() (*pb.HardState, *pb.ConfState, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.hard.proto(), proto.CloneOf(g.mu.base.ConfState), nil
}

// FirstIndex implements raft.Storage.
func (g *Group) FirstIndex() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.base.Index + 1, nil
}

// LastIndex implements raft.Storage.
func (g *Group) LastIndex() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lastLocked(), nil
}

func (g *Group) lastLocked() uint64 { return g.mu.base.Index + uint64(len(g.mu.slots)) }

// Term implements raft.Storage.
func (g *Group) Term(i uint64) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.termLocked(i)
}

func (g *Group) termLocked(i uint64) (uint64, error) {
	switch {
	case i < g.mu.base.Index:
		return 0, raft.ErrCompacted
	case i == g.mu.base.Index:
		return g.mu.base.Term, nil
	case i > g.lastLocked():
		return 0, raft.ErrUnavailable
	}
	return g.mu.slots[i-g.mu.base.Index-1].term, nil
}

// entryBytes is what an entry has beside its data at most, as raft counts.
const entryBytes = 32

// Entries implements raft.Storage. Entries that are not in memory are read from the log
// files.
func (g *Group) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	g.mu.Lock()
	if lo <= g.mu.base.Index {
		g.mu.Unlock()
		return nil, raft.ErrCompacted
	}
	if hi > g.lastLocked()+1 || lo >= hi {
		g.mu.Unlock()
		return nil, raft.ErrUnavailable
	}
	slots := g.mu.slots[lo-g.mu.base.Index-1 : hi-g.mu.base.Index-1]
	out := g.mu.inMemory(lo, slots)
	if len(out) == 0 {
		p := pieceOf(lo, slots, maxSize)
		g.mu.Unlock()
		var err error
		if out, err = g.store.readPiece(g.stream, &p); err != nil {
			if first, _ := g.FirstIndex(); lo < first {
				return nil, raft.ErrCompacted // it was truncated meanwhile
			}
			return nil, fmt.Errorf("read entry %d of the Raft log of group %d: %w", lo, g.id, err)
		}
		g.mu.Lock()
		g.mu.ahead = out
	}
	size := uint64(0)
	for n, e := range out {
		if lo+uint64(n) == hi {
			out = out[:n]
			break
		}
		if size += uint64(len(e.GetData())) + entryBytes; size > maxSize && n > 0 {
			out = out[:n]
			break
		}
	}
	if g.mu.aheadUpTo(lo + uint64(len(out)) - 1) {
		g.mu.ahead = nil
	}
	g.mu.Unlock()
	return append([]*pb.Entry(nil), out...), nil
}

// Snapshot implements raft.Storage: a snapshot is made by the owner of the partition.
func (g *Group) Snapshot() (*pb.Snapshot, error) {
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// Append appends entries, in memory; those that are there from the first one's index on are
// replaced. hard, if not nil, replaces the hard state. Both are durable when Store.Wait has
// returned for the position. Entries must not be changed afterwards. An error leaves the log
// as it was, or with the first of the entries if they are longer than recordBytes.
func (g *Group) Append(hard *pb.HardState, entries []*pb.Entry) (pos wal.Position, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := record{kind: kindAppend, hard: hardOf(hard), entries: entries}
	if len(entries) > 0 {
		r.first = entries[0].GetIndex()
	}
	if err = g.checkLocked(&r); err != nil {
		return 0, fmt.Errorf("append to the Raft log of group %d: %w", g.id, err)
	}
	for some, rest := divide(entries); ; some, rest = divide(rest) {
		part := r
		if part.entries = some; len(rest) > 0 {
			part.hard.commit = min(r.hard.commit, rest[0].GetIndex()-1)
		}
		if len(some) > 0 {
			part.first = some[0].GetIndex()
		}
		if pos, err = g.writeLocked(&part, appendEntries(nil, &part.hard, some)); err != nil || len(rest) == 0 {
			return pos, err
		}
	}
}

// recordBytes is how long the data of the entries in a record is, unless it has a single one. Who reads an entry reads its record.
const recordBytes = 1 << 20

// divide returns the entries of the next record, and the rest.
func divide(entries []*pb.Entry) (some, rest []*pb.Entry) {
	n, size := 0, 0
	for ; n < len(entries); n++ {
		if size += len(entries[n].GetData()); size > recordBytes && n > 0 {
			break
		}
	}
	return entries[:n], entries[n:]
}

func hardOf(h *pb.HardState) hardState {
	if raft.IsEmptyHardState(h) {
		return hardState{}
	}
	return hardState{h.GetTerm(), h.GetVote(), h.GetCommit()}
}

// writeLocked appends a record and applies it to what is in memory.
func (g *Group) writeLocked(r *record, payload []byte) (wal.Position, error) {
	highest := max(g.lastLocked(), r.base.Index)
	if n := len(r.entries); n > 0 {
		highest = r.first + uint64(n) - 1
	}
	pos, at, err := g.store.log.AppendCarried(g.stream, highest, payload)
	if err != nil {
		return 0, err
	}
	g.applyLocked(r)
	if len(r.entries) > 0 {
		g.mu.replace(int(r.first-g.mu.base.Index-1), r.entries, place{at, pos})
		g.mu.shrink(g.store.memory.Load(), g.store.log.Written())
	}
	return pos, nil
}

// shrink takes entries out of memory that are more than the part of the group.
func (g *Group) shrink() {
	written := g.store.log.Written()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.shrink(g.store.memory.Load(), written)
}

// checkLocked returns why a record cannot follow what is there, or could not be decoded at the next start; nil if it can.
func (g *Group) checkLocked(r *record) error {
	in := g.mu.installing
	switch r.kind {
	case kindDone, kindVoid:
		if in == nil || in.Index != r.base.Index {
			return fmt.Errorf("the end of an installation of entry %d that has not begun", r.base.Index)
		}
		return nil
	}
	if in != nil {
		return fmt.Errorf("the installation of entry %d has not ended", in.Index)
	}
	if r.hard.term == 0 && r.hard != (hardState{}) {
		return fmt.Errorf("hard state %+v without a term", r.hard)
	}
	if h := &g.mu.hard; r.hard.term != 0 && (r.hard.term < h.term || r.hard.term == h.term && h.vote != 0 && r.hard.vote != h.vote) {
		return fmt.Errorf("hard state %+v after %+v", r.hard, *h)
	}
	known := cmp.Or(r.hard.term, g.mu.hard.term)
	if r.kind == kindInstall {
		if r.base.Term > known {
			return fmt.Errorf("a snapshot of term %d, the hard state is of %d", r.base.Term, known)
		}
		if last, _ := g.termLocked(r.base.Index); r.base.Index <= g.mu.base.Index || last == r.base.Term {
			return fmt.Errorf("a snapshot of entry %d, which the log has", r.base.Index)
		}
		return nil
	}
	end := g.lastLocked()
	if n := len(r.entries); n > 0 {
		end = r.first + uint64(n) - 1
	}
	if r.hard.commit > end {
		return fmt.Errorf("a commit of entry %d, the last one is %d", r.hard.commit, end)
	}
	if len(r.entries) == 0 {
		return nil
	}
	if r.first <= g.mu.base.Index {
		return fmt.Errorf("entry %d is in the base, which is at %d", r.first, g.mu.base.Index)
	}
	term, err := g.termLocked(r.first - 1)
	if err != nil {
		return fmt.Errorf("entry %d, the last one is %d", r.first, g.lastLocked())
	}
	for i, e := range r.entries {
		if _, known := pb.EntryType_name[int32(e.GetType())]; !known || e.GetTerm() == 0 {
			return fmt.Errorf("entry %d of type %d and term %d", e.GetIndex(), e.GetType(), e.GetTerm())
		}
		if e.GetTerm() < term || e.GetIndex() != r.first+uint64(i) {
			return fmt.Errorf("entry %d of term %d at %d after one of term %d", e.GetIndex(), e.GetTerm(), r.first+uint64(i), term)
		}
		term = e.GetTerm()
	}
	if term > known {
		return fmt.Errorf("entry %d of term %d, the hard state is of %d", end, term, known)
	}
	return nil
}

// applyLocked applies a record to what is in memory.
func (g *Group) applyLocked(r *record) {
	if r.hard.term != 0 && r.kind == kindAppend {
		// What was truncated was committed, whether or not raft has said so here yet.
		g.mu.hard = hardState{r.hard.term, r.hard.vote, max(r.hard.commit, g.mu.hard.commit)}
	}
	switch r.kind {
	case kindInstall:
		if r.hard.term != 0 { // the commit is that of the snapshot, which may come to nothing
			g.mu.hard = hardState{r.hard.term, r.hard.vote, g.mu.hard.commit}
		}
		b := r.base
		g.mu.installing = &b
	case kindDone:
		g.mu.base, g.mu.installing = *g.mu.installing, nil
		g.mu.tail = tail{}
		g.mu.hard.commit = max(g.mu.hard.commit, g.mu.base.Index)
	case kindVoid:
		g.mu.installing = nil
	}
}

// Check compares the log with the entry up to which the partition has applied it. ErrLost:
// the partition has an entry that the log has lost. Otherwise the commit of the hard state
// is raised to it: what was applied was committed.
func (g *Group) Check(applied uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := g.lastLocked(); applied > last {
		return &lost{fmt.Errorf("group %d: the partition has applied entry %d, the last one in the log is %d", g.id, applied, last)}
	}
	if applied > g.mu.hard.commit {
		g.mu.hard.commit = applied
	}
	return nil
}

// Truncate drops the entries up to b.Index, which must be there; b is the state at that
// entry. The partition must have it durably. When Truncate returns, b is durable. After an
// error that matches fault.ErrOutcomeUnknown the store must be opened again.
func (g *Group) Truncate(b Base) error {
	if err := g.Cut(b); err != nil {
		return err
	}
	return g.store.note()
}

// Cut is Truncate in memory only: the log files are there until Store.Note. A crash before
// that leaves the log as it was before.
func (g *Group) Cut(b Base) error {
	g.mu.Lock()
	term, err := g.termLocked(b.Index)
	if err == nil && (b.Index <= g.mu.base.Index || term != b.Term || g.mu.installing != nil) {
		err = fmt.Errorf("the entry is of term %d, the base is at %d", term, g.mu.base.Index)
	}
	if err != nil {
		g.mu.Unlock()
		return fmt.Errorf("truncate the Raft log of group %d up to entry %d of term %d: %w", g.id, b.Index, b.Term, err)
	}
	g.mu.cut(int(b.Index - g.mu.base.Index))
	if g.mu.aheadUpTo(b.Index) {
		g.mu.ahead = nil
	}
	g.mu.base = b
	g.mu.hard.commit = max(g.mu.hard.commit, b.Index)
	g.mu.Unlock()
	return nil
}

// BeginInstall notes, durably, that the partition is about to be replaced by one that is at
// entry b.Index. The term and the vote of hard, if it is not nil, are durable too. The log
// must not have that entry.
func (g *Group) BeginInstall(hard *pb.HardState, b Base) error {
	return g.writeSynced(&record{kind: kindInstall, hard: hardOf(hard), base: b})
}

// Committed returns an entry up to which the log has, durably, that all were committed. The hard state may say more: see Check.
func (g *Group) Committed() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.mu.committed, g.mu.base.Index)
}

// Commit notes, durably, that the entries up to index, which are in the log, were committed.
func (g *Group) Commit(index uint64) error {
	g.mu.Lock()
	r := record{kind: kindAppend, hard: g.mu.hard}
	r.hard.commit = max(r.hard.commit, index)
	if last := g.lastLocked(); index > last {
		g.mu.Unlock()
		return fmt.Errorf("commit of entry %d of group %d, the last one is %d", index, g.id, last)
	}
	err := g.checkLocked(&r)
	var pos wal.Position
	if err == nil {
		pos, err = g.writeLocked(&r, appendEntries(nil, &r.hard, nil))
	}
	g.mu.Unlock()
	if err != nil {
		return fmt.Errorf("commit entry %d of group %d: %w", index, g.id, err)
	}
	if err = g.store.Wait(pos); err == nil {
		g.mu.Lock()
		g.mu.committed = max(g.mu.committed, index)
		g.mu.Unlock()
	}
	return err
}

// Begin gives an empty log, which waits for a snapshot, the base b, durably: the partition has
// come to it in another way. The term and vote of the replica stay, and it may go on as if it
// had been made with b. Its owner must be made anew. After a crash there may be an
// installation of b that has begun, as after BeginInstall.
func (g *Group) Begin(b Base) error {
	g.mu.Lock()
	hard := g.mu.hard
	if hard.term < b.Term {
		hard = hardState{term: b.Term}
	}
	install, done := record{kind: kindInstall, hard: hard, base: b}, record{kind: kindDone, base: Base{Index: b.Index}}
	payload, err := appendBase(appendHard([]byte{byte(kindInstall)}, &hard), &b)
	if err == nil && (g.lastLocked() != 0 || b.Index == 0) {
		err = fmt.Errorf("the log has entries up to %d", g.lastLocked())
	}
	if err == nil {
		err = g.checkLocked(&install)
	}
	if err == nil {
		_, err = g.writeLocked(&install, payload)
	}
	var pos wal.Position
	if err == nil {
		pos, err = g.writeLocked(&done, binary.AppendUvarint([]byte{byte(kindDone)}, b.Index))
	}
	g.mu.Unlock()
	if err != nil {
		return fmt.Errorf("begin the Raft log of group %d at entry %d: %w", g.id, b.Index, err)
	}
	return g.store.Wait(pos)
}

// EndInstall notes, durably, whether the partition was replaced. If it was, the log is empty
// and begins behind the base of Installing.
func (g *Group) EndInstall(done bool) error {
	in := g.Installing()
	if in == nil {
		return fmt.Errorf("group %d: no installation has begun", g.id)
	}
	r := record{kind: kindVoid, base: Base{Index: in.Index}}
	if done {
		r.kind = kindDone
	}
	return g.writeSynced(&r)
}

// writeSynced appends a record about an installation and waits for its sync.
func (g *Group) writeSynced(r *record) error {
	var payload []byte
	if r.kind == kindInstall {
		var err error
		if payload, err = appendBase(appendHard([]byte{byte(r.kind)}, &r.hard), &r.base); err != nil {
			return err
		}
	} else {
		payload = binary.AppendUvarint([]byte{byte(r.kind)}, r.base.Index)
	}
	g.mu.Lock()
	err := g.checkLocked(r)
	if err != nil {
		g.mu.Unlock()
		return fmt.Errorf("install in group %d: %w", g.id, err)
	}
	pos, err := g.writeLocked(r, payload)
	g.mu.Unlock()
	if err != nil {
		return err
	}
	return g.store.Wait(pos)
}

// state describes the group for the manifest.
func (g *Group) state() groupState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return groupState{stream: g.stream, id: g.id, replica: g.replica, hard: g.mu.hard, base: g.mu.base}
}
