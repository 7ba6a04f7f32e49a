package raftlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

const (
	manifestName = "MANIFEST"
	manifestTemp = "MANIFEST.tmp"
	lockName     = "LOCK"
)

// Store has the logs of all groups of a node. Its methods are safe for concurrent use.
type Store struct {
	fs   vfs.FS
	dir  string
	opts Options
	log  *wal.Log
	lock io.Closer

	memory atomic.Int64         // bytes of the newest entries of each group that are kept in memory
	noting sync.Mutex           // held while the manifest is written
	states map[string]stateFile // the files with states that are there, by their names; guarded by noting
	// unnoted says that a Remove has failed, and no manifest has been written since; guarded by noting.
	unnoted bool
	mu      struct {
		sync.Mutex
		manifest manifest // its groups are left out
		groups   []*Group // by id
		closed   bool
	}
}

// Options are the settings of a Store. The zero value stands for the defaults.
type Options struct {
	// FirstFileBytes and MaxFileBytes are those of wal.Options.
	FirstFileBytes, MaxFileBytes int64
	// MemoryBytes is how many bytes of the newest entries of each group are kept in memory;
	// older ones are read from the log files, each record by its place. 0: 4 MiB.
	MemoryBytes int64
	// AllMemoryBytes is how many those of all groups are, but for 64 KiB of each. Each group has an equal part, and no more
	// than MemoryBytes. 0: no bound.
	AllMemoryBytes int64
	// Fresh makes Open make the store if it is not there. Without it an Open of a directory
	// without a manifest is ErrLost: a replica must know whether it has had a log.
	Fresh bool
}

// Open opens the logs in a directory. Errors: ErrLost, which comes with a
// *fault.CorruptionError or says what is missing; fault.ErrTooNew; fault.ErrLocked; those of
// the file system.
func Open(ctx context.Context, fs vfs.FS, dir string, o Options) (_ *Store, err error) {
	s := &Store{fs: fs, dir: dir, opts: o, states: make(map[string]stateFile)}
	if s.opts.MemoryBytes == 0 {
		s.opts.MemoryBytes = 4 << 20
	}
	if o.Fresh {
		if err = vfs.MkdirSync(fs, dir); err != nil {
			return nil, err
		}
	}
	s.lock, err = fs.Lock(path.Join(dir, lockName), "Raft logs of cleave")
	if errors.Is(err, fault.ErrMissing) {
		return nil, &lost{err}
	} else if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.lock.Close()
		}
	}()
	if err = s.load(o.Fresh); err != nil {
		return nil, err
	}
	if err = s.recover(ctx, o); err != nil {
		if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrMissing) {
			err = &lost{err}
		}
		return nil, err
	}
	return s, nil
}

// load reads the manifest, or makes the first one.
func (s *Store) load(fresh bool) error {
	name := path.Join(s.dir, manifestName)
	b, err := vfs.ReadFile(s.fs, name, maxManifestBytes)
	switch {
	case errors.Is(err, fault.ErrMissing):
		bases, listErr := s.fs.List(s.dir)
		if listErr != nil {
			return listErr
		}
		if !fresh || slices.ContainsFunc(bases, isLog) || slices.ContainsFunc(bases, isState) {
			return &lost{err}
		}
		s.mu.manifest = manifest{nextStream: 1}
		rand.Read(s.mu.manifest.store[:]) // never fails
		return s.write(s.mu.manifest)
	case err != nil:
		return err
	}
	m, err := decodeManifest(s.fs.Path(name), b)
	for i := 0; err == nil && i < len(m.groups); i++ {
		err = s.readState(&m.groups[i])
	}
	if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrMissing) {
		return &lost{err}
	} else if err != nil {
		return err
	}
	s.mu.manifest = *m
	return nil
}

func isLog(base string) bool {
	_, ok := wal.ParseFileName(base)
	return ok
}

// recover reads the log, notes where it ends, and starts a new file.
func (s *Store) recover(ctx context.Context, o Options) error {
	m := &s.mu.manifest
	byStream := make(map[wal.Stream]*replay)
	s.divide(len(m.groups))
	for _, g := range m.groups {
		byStream[g.stream] = &replay{state: g, memory: s.memory.Load()}
	}
	st := wal.State{First: m.first, Closed: m.closed}
	if err := wal.PrepareRecovery(s.fs, s.dir, st); err != nil {
		return err
	}
	wo := wal.Options{FirstFileBytes: o.FirstFileBytes, MaxFileBytes: o.MaxFileBytes, MaxRecordBytes: maxRecordBytes, StoreID: m.store}
	rec, err := wal.Recover(ctx, s.fs, s.dir, st, wo, func(r *wal.Record) error {
		g := byStream[r.Stream]
		if g == nil || r.Type != wal.TypeCarried {
			return nil // of a group that was removed, or about the log itself
		}
		d, refusal := decodeRecord(r.Payload)
		if refusal == nil {
			refusal = g.add(&d, wal.Ref{File: r.File, Offset: r.Offset})
		}
		if refusal != nil {
			return fault.Corrupt(s.fs.Path(path.Join(s.dir, wal.FileName(r.File))), r.Offset, "record of group %d: %w", g.state.id, refusal)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, noted := range m.groups {
		g, missing := byStream[noted.stream].finish(s)
		if missing != nil {
			return &lost{fmt.Errorf("group %d: %w", noted.id, missing)}
		}
		s.mu.groups = append(s.mu.groups, g)
	}
	// The groups stay as the manifest has them: the log says the rest.
	m.first, m.closed = rec.First, rec.Closed
	if err = s.removeLeftovers(); err != nil {
		return err
	}
	if err = s.write(*m); err != nil {
		return err
	}
	m.groups = nil
	s.log, err = wal.Create(s.fs, s.dir, rec, 1, wo)
	return err
}

// maxRecordBytes bounds a record: an installation has a state, and an append may have a single entry that is long.
const maxRecordBytes = 256 << 20

func (s *Store) newGroup(st *groupState) *Group {
	g := &Group{store: s, stream: st.stream, id: st.id, replica: st.replica}
	g.mu.hard, g.mu.base = st.hard, st.base
	return g
}

// write writes the states that the manifest names and are not there, then the manifest, and removes the states that it does
// not name. After an error that matches fault.ErrOutcomeUnknown the store
// must be opened again.
func (s *Store) write(m manifest) error {
	for i := range m.groups {
		if err := s.writeState(&m.groups[i]); err != nil {
			return err
		}
	}
	b, err := m.encode()
	if err != nil {
		return err
	}
	if err := vfs.WriteFileAtomic(s.fs, path.Join(s.dir, manifestTemp), path.Join(s.dir, manifestName), b); err != nil {
		return err
	}
	return s.keepStates(m.groups)
}

// note writes a manifest that describes all groups as they are, and drops the log files that
// are not needed any more.
func (s *Store) note() error {
	s.noting.Lock()
	defer s.noting.Unlock()
	return s.noteLocked()
}

// noteLocked is note, which also describes groups that are about to be added.
func (s *Store) noteLocked(added ...*Group) error {
	// What is appended behind this is in this file or a later one, and not in the manifest.
	newest := uint64(math.MaxUint64)
	if s.log != nil {
		newest = s.log.Newest()
	}
	s.mu.Lock()
	m, groups := s.mu.manifest, slices.Concat(s.mu.groups, added)
	s.mu.Unlock()
	slices.SortFunc(groups, func(a, b *Group) int { return cmp.Compare(a.id, b.id) })
	m.groups = nil
	bases := make(map[wal.Stream]uint64)
	for _, g := range groups {
		st := g.state()
		m.groups = append(m.groups, st)
		bases[st.stream] = st.base.Index
	}
	if s.log == nil {
		return s.write(m)
	}
	// What the manifest says of hard states must be in the log.
	if err := s.log.Sync(); err != nil {
		return err
	}
	first := min(newest, s.log.FirstNeeded(func(stream wal.Stream, _ uint64) uint64 {
		if base, found := bases[stream]; found {
			return base
		}
		return math.MaxUint64 // the group was removed
	}))
	m.first = first
	m.closed = slices.DeleteFunc(slices.Clone(m.closed), func(c wal.Closed) bool { return c.File < first })
	if err := s.write(m); err != nil {
		return err
	}
	m.groups = nil
	s.mu.Lock()
	s.mu.manifest = m
	s.mu.Unlock()
	if err := s.log.Drop(first); err != nil {
		return err
	}
	s.unnoted = false
	return nil
}

// Create makes the log of a group that this node has none of. b is the state of the group
// behind which the log begins; all first replicas of a group begin with the same one. A
// replica that joins a group begins with an empty one and gets a snapshot. The log is durable
// when Create returns. replica is the id that no other replica of the group has ever had. Errors: fault.ErrExists;
// ErrRemoved for an id that Remove has ended.
func (s *Store) Create(id, replica uint64, b Base) (*Group, error) {
	s.noting.Lock()
	defer s.noting.Unlock()
	g, err := s.prepare(id, replica, b)
	if err == nil {
		err = s.add(g)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// First is what the log of a group begins with, as Create has it.
type First struct {
	Group, Replica uint64
	Base           Base
}

// CreateAll is Create for many groups at once. It leaves out those whose logs are there, and replicas that Remove has ended.
func (s *Store) CreateAll(firsts []First) error {
	s.noting.Lock()
	defer s.noting.Unlock()
	var made []*Group
	for i := range firsts {
		g, err := s.prepare(firsts[i].Group, firsts[i].Replica, firsts[i].Base)
		if err == nil {
			made = append(made, g)
		} else if !errors.Is(err, fault.ErrExists) && !errors.Is(err, ErrRemoved) {
			return err
		}
	}
	return s.add(made...)
}

// prepare makes a group, which add adds. noting is held until then.
func (s *Store) prepare(id, replica uint64, b Base) (*Group, error) {
	if replica == 0 {
		return nil, fmt.Errorf("group %d: a replica has an id", id)
	}
	if b.ConfState == nil {
		b.ConfState = new(pb.ConfState)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.mu.manifest.removed, replicaOf{id, replica}) {
		return nil, fmt.Errorf("group %d, replica %d: %w", id, replica, ErrRemoved)
	}
	if _, found := slices.BinarySearchFunc(s.mu.groups, id, byID); found {
		return nil, fmt.Errorf("group %d: %w", id, fault.ErrExists)
	}
	b.ConfState = proto.CloneOf(b.ConfState)
	g := s.newGroup(&groupState{stream: wal.Stream(s.mu.manifest.nextStream), id: id, replica: replica, base: b})
	if b.Index > 0 {
		g.mu.hard = hardState{term: b.Term, commit: b.Index}
	}
	s.mu.manifest.nextStream++ // also if nothing comes of it
	return g, nil
}

// add adds groups, durably.
func (s *Store) add(made ...*Group) error {
	if len(made) == 0 {
		return nil
	}
	// A group is not there before the manifest names it: a start ignores the records of one that it does not name.
	if err := s.noteLocked(made...); err != nil {
		return err
	}
	s.mu.Lock()
	s.mu.groups = slices.Concat(s.mu.groups, made)
	slices.SortFunc(s.mu.groups, func(a, b *Group) int { return cmp.Compare(a.id, b.id) })
	s.mu.Unlock()
	groups := s.Groups()
	s.divide(len(groups))
	for _, other := range groups { // also those that nobody appends to
		other.shrink()
	}
	return nil
}

// divide gives each of some groups its part of the memory.
func (s *Store) divide(groups int) {
	part := s.opts.MemoryBytes
	if all := s.opts.AllMemoryBytes; all > 0 {
		part = min(part, max(64<<10, all/int64(max(groups, 1))))
	}
	s.memory.Store(part)
}

// Remove drops the log of a group. Its owner has stopped, and its id in the group is never
// used again: Create refuses it. The log is gone when Remove has returned nil. After an error it
// can be called again.
func (s *Store) Remove(id uint64) error {
	s.noting.Lock()
	defer s.noting.Unlock()
	s.mu.Lock()
	at := slices.IndexFunc(s.mu.groups, func(g *Group) bool { return g.id == id })
	if at < 0 {
		s.mu.Unlock()
		if s.unnoted {
			return s.noteLocked()
		}
		return fmt.Errorf("group %d: %w", id, fault.ErrMissing)
	}
	stream := s.mu.groups[at].stream
	s.mu.manifest.removed = append(slices.Clip(s.mu.manifest.removed), replicaOf{id, s.mu.groups[at].replica})
	s.mu.groups = slices.Delete(slices.Clone(s.mu.groups), at, at+1)
	s.mu.Unlock()
	s.divide(len(s.Groups()))
	s.log.Forget(stream)
	s.unnoted = true
	return s.noteLocked()
}

// Discard drops the logs of groups that no node has any more, all at once, and what Remove has
// remembered of them. The caller sees to it that no group gets one of their ids again. The logs are
// gone when Discard has returned nil.
func (s *Store) Discard(of func(group uint64) bool) error {
	s.noting.Lock()
	defer s.noting.Unlock()
	s.mu.Lock()
	var streams []wal.Stream
	s.mu.groups = slices.DeleteFunc(slices.Clone(s.mu.groups), func(g *Group) bool {
		if of(g.id) {
			streams = append(streams, g.stream)
			return true
		}
		return false
	})
	s.mu.manifest.removed = slices.DeleteFunc(slices.Clone(s.mu.manifest.removed), func(r replicaOf) bool { return of(r.group) })
	s.mu.Unlock()
	s.divide(len(s.Groups()))
	for _, stream := range streams {
		s.log.Forget(stream)
	}
	return s.noteLocked()
}

// Group returns the log of a group, nil if the node has none.
func (s *Store) Group(id uint64) *Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := slices.BinarySearchFunc(s.mu.groups, id, byID)
	if !found {
		return nil
	}
	return s.mu.groups[at]
}

func byID(g *Group, id uint64) int { return cmp.Compare(g.id, id) }

// Groups returns the logs of all groups, by the ids of the groups.
func (s *Store) Groups() []*Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.groups)
}

// Wait returns when everything up to pos is durable. One sync serves all who wait. After an
// error nothing more of the store is durable; open it again.
func (s *Store) Wait(pos wal.Position) error { return s.log.Wait(pos, true) }

// Note makes what Group.Cut has done durable, for all groups at once, and drops the log files
// that no group needs any more. After an error that matches fault.ErrOutcomeUnknown the store
// must be opened again.
func (s *Store) Note() error { return s.note() }

// Vouch makes the newest records vouched for, if none follows them. It is meant for a log
// that is idle.
func (s *Store) Vouch() error { return s.log.Vouch() }

// SpareWanted returns a channel that has a value when MakeSpare has something to do.
func (s *Store) SpareWanted() <-chan struct{} { return s.log.SpareWanted() }

// MakeSpare makes the next log file ahead, and fills it while many appends are synced: a sync
// then changes nothing but the data of the file, which costs half. It is meant for a goroutine
// in the background. An error leaves the logs as they were, unless the log has failed.
func (s *Store) MakeSpare(ctx context.Context) error { return s.log.MakeSpare(ctx) }

// Close makes everything durable and closes the store.
func (s *Store) Close() error {
	s.noting.Lock()
	defer s.noting.Unlock()
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if closed {
		return wal.ErrClosed
	}
	defer s.lock.Close()
	if err := s.noteLocked(); err != nil {
		return err
	}
	end, err := s.log.Close()
	if err != nil {
		return err
	}
	s.mu.Lock()
	m, groups := s.mu.manifest, s.mu.groups
	s.mu.Unlock()
	for _, g := range groups {
		m.groups = append(m.groups, g.state())
	}
	m.closed = append(slices.Clone(m.closed), end)
	if err := s.write(m); err != nil {
		return err
	}
	return wal.Cut(s.fs, s.dir, end)
}
