package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// maxReplicas bounds how many replicas a node has.
const maxReplicas = 1 << 16

// replicas are those of a node. Readers need no lock: each change makes a new picture.
type replicas struct {
	changing sync.Mutex
	now      atomic.Pointer[picture]
}

type picture struct {
	byGroup map[uint64]*replica
	ordered []*replica // by group
}

func (s *replicas) init() { s.now.Store(&picture{byGroup: make(map[uint64]*replica)}) }

// get returns the replica of a group, nil if there is none.
func (s *replicas) get(group uint64) *replica {
	if p := s.now.Load(); p != nil {
		return p.byGroup[group]
	}
	return nil
}

// all returns the replicas, in the order of their groups. They must not be changed.
func (s *replicas) all() []*replica {
	if p := s.now.Load(); p != nil {
		return p.ordered
	}
	return nil
}

// add adds replicas. Error: ErrTooMany.
func (s *replicas) add(some ...*replica) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.now.Load()
	if len(before.ordered)+len(some) > maxReplicas {
		return fmt.Errorf("%w: %d at most", ErrTooMany, maxReplicas)
	}
	p := &picture{byGroup: maps.Clone(before.byGroup), ordered: append(slices.Clone(before.ordered), some...)}
	for _, r := range some {
		p.byGroup[r.def.ID] = r
	}
	slices.SortFunc(p.ordered, func(a, b *replica) int { return cmp.Compare(a.def.ID, b.def.ID) })
	s.now.Store(p)
	return nil
}

// remove removes a replica, if it is there.
func (s *replicas) remove(r *replica) {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.now.Load()
	if before.byGroup[r.def.ID] != r {
		return
	}
	p := &picture{byGroup: maps.Clone(before.byGroup), ordered: slices.DeleteFunc(slices.Clone(before.ordered), func(o *replica) bool { return o == r })}
	delete(p.byGroup, r.def.ID)
	s.now.Store(p)
}
