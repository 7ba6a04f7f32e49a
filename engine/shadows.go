package engine

import (
	"sync"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// shadowList names the versions of an older source that a newer one overwrites,
// each with the lowest sequence at which it does.
type shadowList struct {
	ordinals []uint32
	seqs     []uint64
}

func (l *shadowList) add(ordinal, versions uint32, seq uint64) {
	for i := range versions {
		l.ordinals, l.seqs = append(l.ordinals, ordinal+i), append(l.seqs, seq)
	}
}

// shadowCache holds what a source overwrites in older ones. Both are immutable,
// so it is found once, by looking up each of its keys in them.
type shadowCache struct {
	mu    sync.Mutex
	lists map[any]*shadowList // by identity of the older source
}

// part of a file: two partitions that are merged may each have had one.
type filePart struct {
	r      *segment.Reader
	lo, hi uint32
}

// identity is equal for sources with the same versions at the same ordinals.
func (s *indexSource) identity() any {
	if s.file != nil {
		return filePart{s.file.Reader, s.lo, s.hi}
	}
	return s.part
}

func (s *indexSource) cache() *shadowCache {
	if s.file != nil {
		return &s.file.shadows
	}
	return &s.part.shadows
}

// shadowsOn returns what the source, number i of all, overwrites in an older one.
// It looks for what it overwrites in all older ones at a time.
func (q *sourceSet) shadowsOn(i int, older *indexSource) (*shadowList, error) {
	s := q.list[i]
	cache := s.cache()
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if l := cache.lists[older.identity()]; l != nil {
		return l, nil
	}
	lists := make(map[any]*shadowList)
	type target struct {
		*indexSource
		list *shadowList
	}
	var targets []target
	for _, o := range q.list[i+1:] {
		if l := cache.lists[o.identity()]; l != nil {
			lists[o.identity()] = l // others are gone
			continue
		}
		l := new(shadowList)
		lists[o.identity()] = l
		if !s.apart(o) {
			targets = append(targets, target{o, l})
		}
	}
	if len(targets) > 0 {
		err := s.eachKey(func(k *item.Key, oldest uint64) error {
			hash := k.ItemHash()
			epk, hashed := partmap.EPK{}, false
			for _, t := range targets {
				if t.run != nil { // one file of a run at most has the key
					if !hashed {
						epk, hashed = partmap.HashEncoded(k.PK), true
					}
					if t.run.find(&epk) != t.file {
						continue
					}
				}
				ordinal, versions, err := t.overwrittenBy(k, hash)
				if err != nil {
					return err
				}
				t.list.add(ordinal, versions, oldest)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	cache.lists = lists
	return lists[older.identity()], nil
}

// apart says that two sources can have no logical partition in common: two files,
// if their keys lie apart.
func (s *indexSource) apart(o *indexSource) bool {
	if s.file == nil || o.file == nil {
		return false
	}
	if s.run == o.run {
		return true
	}
	a, b := s.file.Properties(), o.file.Properties()
	return item.ComparePartition(&a.Max, &b.Min) < 0 || item.ComparePartition(&b.Max, &a.Min) < 0
}

// eachKey calls visit with the keys of the source and the sequence of the oldest
// version of each.
func (s *indexSource) eachKey(visit func(k *item.Key, oldest uint64) error) error {
	if s.part != nil {
		var k, next item.Key
		var v item.Version
		for i := range s.part.refs {
			s.part.table.Borrow(s.part.refs[i], &k, &v)
			if i+1 < len(s.part.refs) {
				var older item.Version
				if s.part.table.Borrow(s.part.refs[i+1], &next, &older); item.Compare(&k, &next) == 0 {
					continue
				}
			}
			if err := visit(&k, v.Seq); err != nil {
				return err
			}
		}
		return nil
	}
	in := runInput{files: []*file{s.file}}
	var last item.KeyCopy
	var oldest uint64
	for {
		ok, err := in.next()
		if err != nil {
			return err
		}
		if oldest != 0 && (!ok || item.Compare(in.walker.Key(), &last.Key) != 0) {
			if err := visit(&last.Key, oldest); err != nil {
				return err
			}
		}
		if !ok {
			return nil
		}
		last.Set(in.walker.Key())
		oldest = in.walker.Version().Seq
	}
}
