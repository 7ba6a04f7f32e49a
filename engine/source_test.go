package engine

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
)

var modelPolicies = []IndexPolicy{
	IndexAll(),
	{Include: []string{"/l/?", "/v/*"}, Exclude: []string{"/*"}},
	{},
}

// changePolicy sets another index policy.
func (m *model) changePolicy() {
	c, err := m.db.Container([]string{"docs", "levels", "plain"}[m.rng.IntN(3)])
	m.must(err)
	job, err := c.SetIndexPolicy(context.Background(), modelPolicies[m.rng.IntN(len(modelPolicies))])
	m.must(err)
	m.must(job.Wait(context.Background()))
	if p := job.Progress(); !p.Done || p.FilesLeft != 0 {
		m.t.Fatalf("progress of a job that is done: %+v", p)
	}
}

// sources compares what queries see of the sources of each partition with what a
// scan sees, now or at a snapshot.
func (m *model) sources() {
	_, c := m.container()
	at := uint64(maxSequence)
	for _, s := range m.snapshots {
		if s.c == c && m.rng.IntN(2) == 0 {
			at = s.seq
		}
	}
	for _, p := range c.routing.Load().parts {
		m.must(m.compareSources(p, at))
	}
}

func (m *model) compareSources(p *partition, at uint64) error {
	guard := p.db.env.epoch.Enter()
	defer guard.Leave()
	v := p.version.Load()
	at, now := min(at, p.visible.Load()), p.c.nowMillis()
	want := make(map[string]uint64)
	name := func(k *item.Key) string { return fmt.Sprintf("%x %s", k.PK, k.ID) }
	var cursors mergedCursor
	defer cursors.close()
	cursors.open(v, at, false)
	for cursors.start(); cursors.Valid(); cursors.Next() {
		if k, v := cursors.Top(); visible(v, now) {
			want[name(k)] = v.Seq
		}
	}
	if err := cursors.Err(); err != nil {
		return err
	}
	tables := m.rng.IntN(3) > 0
	q, err := p.sourcesAt(v, at, now, p.c.family.indexing.Load(), tables)
	if err != nil {
		return err
	}
	got := make(map[string]uint64)
	add := func(_ uint32, k *item.Key, v *item.Version) (bool, error) {
		if got[name(k)] != 0 {
			return false, fmt.Errorf("%s is seen twice, at %d and %d", name(k), got[name(k)], v.Seq)
		}
		got[name(k)] = v.Seq
		return true, nil
	}
	for i := len(q.list) - 1; i >= 0; i-- { // in whatever order
		s := q.list[i]
		if !s.indexed() || m.rng.IntN(4) == 0 {
			if err := s.scan(nil, nil, add); err != nil {
				return err
			}
			continue
		}
		if err := m.readIndexed(s, add); err != nil {
			return err
		}
	}
	for k, seq := range want {
		if got[k] != seq {
			return fmt.Errorf("partition %d at %d: %s is seen at sequence %d, not %d", p.id, at, k, got[k], seq)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("partition %d at %d: %d items are seen, not %d", p.id, at, len(got), len(want))
	}
	return nil
}

// readIndexed shows what of an indexed source is not dead.
func (m *model) readIndexed(s *indexSource, show func(uint32, *item.Key, *item.Version) (bool, error)) error {
	var dead index.Set
	dead.Reset(s.lo, s.hi)
	if err := s.dead(&dead, nil, nil); err != nil {
		return err
	}
	clean, err := s.clean()
	if err != nil {
		return err
	}
	if clean && !dead.Empty() {
		return fmt.Errorf("a source says that it is clean, %d versions are dead", dead.Count())
	}
	var k item.Key
	var v item.Version
	var first item.KeyCopy
	for o := s.lo; o < s.hi; o++ {
		if err := s.version(o, &k, &v); err != nil {
			return err
		}
		if first.PK == nil {
			first.Set(&k)
		}
		if dead.Contains(o) {
			continue
		}
		hidden, err := s.overwritten(&k)
		if err != nil || hidden {
			return fmt.Errorf("ordinal %d is not dead and overwritten: %t, %w", o, hidden, err)
		}
		if _, err := show(o, &k, &v); err != nil {
			return err
		}
	}
	// The ordinals of the first logical partition.
	if s.lo == s.hi {
		return nil
	}
	lo, hi := first.Key, first.Key
	lo.ID, hi.ID = nil, afterAllIDs
	from, to, err := s.cut(&lo, &hi)
	if err != nil || from != s.lo || to <= from {
		return fmt.Errorf("cut at a logical partition: %d to %d of %d, %w", from, to, s.hi, err)
	}
	for _, o := range []uint32{to - 1, to} {
		if o < s.hi {
			if err := s.version(o, &k, &v); err != nil {
				return err
			}
			if same := item.SamePartition(&k, &first.Key); same != (o < to) {
				return fmt.Errorf("cut at a logical partition: ordinal %d of %d to %d: %t", o, from, to, same)
			}
		}
	}
	return nil
}
