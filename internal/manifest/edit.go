package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Edit is a change of a store manifest: what a generation says that another one,
// its base, does not say.
type Edit struct {
	Head                       // as it is now
	DropContainers []uint32    `json:"drop_containers,omitempty"` // with their history
	DropPartitions []uint32    `json:"drop_partitions,omitempty"`
	Containers     []Container `json:"containers,omitempty"` // made or changed
	Partitions     []Partition `json:"partitions,omitempty"` // made or changed
	History        []Reshape   `json:"history,omitempty"`    // added
	Marks          []Mark      `json:"marks,omitzero"`       // all of them; nil: as they were
}

// Edit begins a change of the store.
func (s *Store) Edit() *Edit { return &Edit{Head: s.Head} }

// Apply changes the store, in place. It believes nothing of the edit: the result is to be
// checked where that comes from a file.
func (s *Store) Apply(e *Edit) {
	s.Head = e.Head
	s.Containers = change(s.Containers, e.DropContainers, e.Containers, containerID)
	s.Partitions = change(s.Partitions, e.DropPartitions, e.Partitions, partitionID)
	s.History = addHistory(s.History, e.DropContainers, e.History)
	if e.Marks != nil {
		s.Marks = e.Marks
	}
}

// Clone returns a store that later edits of this one do not change.
func (s *Store) Clone() Store {
	c := *s
	c.Containers, c.Partitions = slices.Clone(s.Containers), slices.Clone(s.Partitions)
	return c
}

// Container returns what the store says of a container, nil if it has none of the number.
func (s *Store) Container(id uint32) *Container { return find(s.Containers, id, containerID) }

// Partition is Container for a physical partition.
func (s *Store) Partition(id uint32) *Partition { return find(s.Partitions, id, partitionID) }

// PartitionsFrom returns the physical partitions from a number on.
func (s *Store) PartitionsFrom(id uint32) []Partition {
	i, _ := slices.BinarySearchFunc(s.Partitions, id, by(partitionID))
	return s.Partitions[i:]
}

// sort puts containers and partitions into the order of their numbers, which all
// methods rely on and each edit keeps.
func (s *Store) sort() {
	slices.SortStableFunc(s.Containers, func(a, b Container) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(s.Partitions, func(a, b Partition) int { return cmp.Compare(a.ID, b.ID) })
}

// after returns the edit that does what base does, then what e does.
func (e *Edit) after(base *Edit) *Edit {
	both := &Edit{
		Head:           e.Head,
		DropContainers: slices.Concat(base.DropContainers, e.DropContainers),
		DropPartitions: slices.Concat(base.DropPartitions, e.DropPartitions),
		Containers:     change(slices.Clone(base.Containers), e.DropContainers, e.Containers, containerID),
		Partitions:     change(slices.Clone(base.Partitions), e.DropPartitions, e.Partitions, partitionID),
		History:        addHistory(base.History, e.DropContainers, e.History),
		Marks:          base.Marks,
	}
	if e.Marks != nil {
		both.Marks = e.Marks
	}
	return both
}

func containerID(c *Container) uint32 { return c.ID }
func partitionID(p *Partition) uint32 { return p.ID }

func by[T any](id func(*T) uint32) func(T, uint32) int {
	return func(v T, want uint32) int { return cmp.Compare(id(&v), want) }
}

func find[T any](list []T, want uint32, id func(*T) uint32) *T {
	if i, ok := slices.BinarySearchFunc(list, want, by(id)); ok {
		return &list[i]
	}
	return nil
}

// change drops from a list in the order of numbers and puts into it what is made or
// changed. What has the highest number, as all that is made, costs the least.
func change[T any](list []T, drop []uint32, put []T, id func(*T) uint32) []T {
	if len(drop) > 0 {
		dropped := make(map[uint32]bool, len(drop))
		for _, n := range drop {
			dropped[n] = true
		}
		list = slices.DeleteFunc(list, func(v T) bool { return dropped[id(&v)] })
	}
	for _, v := range put {
		i, ok := len(list), false
		if i > 0 && id(&list[i-1]) >= id(&v) {
			i, ok = slices.BinarySearchFunc(list, id(&v), by(id))
		}
		if ok {
			list[i] = v
		} else {
			list = slices.Insert(list, i, v)
		}
	}
	return list
}

// addHistory forgets the reshapes of dropped containers, adds others, and forgets the
// oldest beyond MaxHistory. The old slice is not changed.
func addHistory(list []Reshape, drop []uint32, add []Reshape) []Reshape {
	if len(drop) == 0 && len(add) == 0 {
		return list
	}
	all := slices.Concat(list, add)
	if len(drop) > 0 {
		all = slices.DeleteFunc(all, func(r Reshape) bool { return slices.Contains(drop, r.Container) })
	}
	return all[max(0, len(all)-MaxHistory):]
}

const (
	maxLinks  = 64      // of a chain: each is at least twice as large as the next
	foldBytes = 4 << 10 // what is smaller is not worth a file of its own
)

// link is one generation of a chain.
type link struct {
	generation uint64
	bytes      int64
	sum        uint32
	edit       *Edit // nil: it is whole
}

// Edit makes the next generation: what e changes of s, which is what the newest
// one says. When it returns nil, that is durable, s says it too, and files that no
// longer count are removed. Errors are those of Store; then s is as it was.
func (d *Dir) Edit(s *Store, e *Edit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return d.failed
	}
	if len(d.chain) == 0 {
		return errors.New("manifest: an edit of nothing")
	}
	slices.SortFunc(e.Containers, func(a, b Container) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(e.Partitions, func(a, b Partition) int { return cmp.Compare(a.ID, b.ID) })
	keep, next := d.chain, e
	for {
		base := keep[len(keep)-1]
		data, sum, err := encode(d.kind, d.generation()+1, base, next)
		if err != nil {
			return err
		}
		if n := int64(len(data)); base.bytes >= max(2*n, d.fold) && together(keep)+n <= d.most {
			if err = d.settle(); err == nil {
				err = d.write(keep, data, link{sum: sum, edit: next})
			}
			if err == nil {
				s.Apply(e)
			}
			return err
		}
		if base.edit == nil {
			break
		}
		keep, next = keep[:len(keep)-1], next.after(base.edit)
	}
	whole := s.Clone()
	whole.Apply(e)
	data, sum, err := encode(d.kind, d.generation()+1, link{}, &whole)
	if err != nil {
		return err
	}
	if err = d.write(nil, data, link{sum: sum}); err == nil {
		*s = whole
	}
	return err
}

// take applies the edits of a chain to what its whole generation says, and checks both.
func (s *Store) take(edits []link) error {
	s.sort()
	for _, l := range edits {
		if err := l.edit.check(s); err != nil {
			return err
		}
		s.Apply(l.edit)
	}
	return s.Check()
}

// check tests what an edit says of itself: see invariant 4.
func (e *Edit) check(s *Store) error {
	if e.StoreID != s.StoreID {
		return fmt.Errorf("an edit of store %x for store %x", e.StoreID, s.StoreID)
	}
	rises := func(before, id uint32) error {
		if id <= before {
			return fmt.Errorf("an edit has number %d behind %d", id, before)
		}
		return nil
	}
	for i := 1; i < len(e.Containers); i++ {
		if err := rises(e.Containers[i-1].ID, e.Containers[i].ID); err != nil {
			return err
		}
	}
	for i := 1; i < len(e.Partitions); i++ {
		if err := rises(e.Partitions[i-1].ID, e.Partitions[i].ID); err != nil {
			return err
		}
	}
	return nil
}
