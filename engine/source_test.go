package engine

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
)

var modelPolicies = []IndexPolicy{
	{Include: []string{"/*"}, Composite: [][]CompositePath{{{Path: "/v"}, {Path: "/id", Descending: true}}, {{Path: "/k", Descending: true}, {Path: "/absent"}, {Path: "/l"}}}},
	{Include: []string{"/l/?", "/v/*"}, Exclude: []string{"/*"}, Composite: [][]CompositePath{{{Path: "/l"}, {Path: "/k"}}}},
	{},
}

// changePolicy sets another index policy.
func (m *model) changePolicy() {
	c, err := m.db.Container([]string{"docs", "levels", "plain"}[m.rng.IntN(3)])
	must(m.t, err)
	job, err := c.SetIndexPolicy(context.Background(), modelPolicies[m.rng.IntN(len(modelPolicies))])
	must(m.t, err)
	must(m.t, job.Wait(context.Background()))
	if p := job.Progress(); !p.Done || p.FilesLeft != 0 {
		m.t.Fatalf("progress of a job that is done: %+v", p)
	}
}

// sources compares what queries see of the sources of each partition with what a
// scan sees, now or at a snapshot.
func (m *model) sources() {
	_, c := m.container()
	at := uint64(lsm.MaxSequence)
	for _, s := range m.snapshots {
		if s.c == c && m.rng.IntN(2) == 0 {
			at = s.seq
		}
	}
	for _, p := range c.routing.Load().parts {
		must(m.t, m.compareSources(p, at))
	}
}

func (m *model) compareSources(p *partition, at uint64) error {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	at, past := min(at, p.Visible.Load()), p.Past()
	want := make(map[string]uint64)
	name := func(k *item.Key) string { return fmt.Sprintf("%x %s", k.PK, k.ID) }
	var cursors lsm.Cursor
	defer cursors.Close()
	cursors.Open(v, at, false)
	for cursors.Start(); cursors.Valid(); cursors.Next() {
		if k, v := cursors.Top(); lsm.Shown(v, past) {
			want[name(k)] = v.Seq
		}
	}
	if err := cursors.Err(); err != nil {
		return err
	}
	tables := m.rng.IntN(3) > 0
	var q lsm.Sources
	if err := q.Open(p.Data(), v, at, past, p.c.family.Indexing.Load(), tables, nil, nil); err != nil {
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
	for i := len(q.List) - 1; i >= 0; i-- { // in whatever order
		s := q.List[i]
		if !s.Indexed() || m.rng.IntN(4) == 0 {
			if err := s.Scan(nil, nil, add); err != nil {
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
			return fmt.Errorf("partition %d at %d: %s is seen at sequence %d, not %d", p.ID, at, k, got[k], seq)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("partition %d at %d: %d items are seen, not %d", p.ID, at, len(got), len(want))
	}
	return nil
}

// readIndexed shows what of an indexed source is not dead.
func (m *model) readIndexed(s *lsm.Source, show func(uint32, *item.Key, *item.Version) (bool, error)) error {
	var dead index.Set
	dead.Reset(s.Lo, s.Hi)
	if err := s.Dead(&dead, nil, nil); err != nil {
		return err
	}
	clean, err := s.Clean()
	if err != nil {
		return err
	}
	if clean && !dead.Empty() {
		return fmt.Errorf("a source says that it is clean, %d versions are dead", dead.Count())
	}
	var k item.Key
	var v item.Version
	var first item.KeyCopy
	for o := s.Lo; o < s.Hi; o++ {
		if err := s.Version(o, &k, &v); err != nil {
			return err
		}
		if first.PK == nil {
			first.Set(&k)
		}
		if dead.Contains(o) {
			continue
		}
		hidden, err := s.Overwritten(&k)
		if err != nil || hidden {
			return fmt.Errorf("ordinal %d is not dead and overwritten: %t, %w", o, hidden, err)
		}
		if _, err := show(o, &k, &v); err != nil {
			return err
		}
	}
	// The ordinals of the first logical partition.
	if s.Lo == s.Hi {
		return nil
	}
	lo, hi := first.Key, first.Key
	lo.ID, hi.ID = nil, lsm.AfterAllIDs
	from, to, err := s.Cut(&lo, &hi)
	if err != nil || from != s.Lo || to <= from {
		return fmt.Errorf("cut at a logical partition: %d to %d of %d, %w", from, to, s.Hi, err)
	}
	for _, o := range []uint32{to - 1, to} {
		if o < s.Hi {
			if err := s.Version(o, &k, &v); err != nil {
				return err
			}
			if same := item.SamePartition(&k, &first.Key); same != (o < to) {
				return fmt.Errorf("cut at a logical partition: ordinal %d of %d to %d: %t", o, from, to, same)
			}
		}
	}
	return nil
}
