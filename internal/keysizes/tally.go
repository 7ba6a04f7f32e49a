package keysizes

import (
	"context"
	"math"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// Tally is what a logical partition holds.
type Tally struct {
	Versions int64
	Bytes    int64 // of their documents
	Newest   int64 // when the newest of them was written, milliseconds; 0: not known
	next     int64 // if exact: when the first of them expires, milliseconds; 0: never
}

// Tally returns what a logical partition holds. If exact is set it reads the logical
// partition and counts the documents that readers see, and those of writes under way.
// Otherwise it adds up the tables of files and the versions in memtables, overwritten and
// deleted ones included. If other partitions replace this one meanwhile, the result means
// nothing.
func (s *Sizes) Tally(ctx context.Context, pk []byte, exact bool) (Tally, error) {
	epk := partmap.HashEncoded(pk)
	k := item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk}
	if exact {
		return s.countAll(ctx, &k)
	}
	guard := s.Tree.Env.Epoch.Enter()
	defer guard.Leave()
	v := s.Tree.Version.Load()
	t, err := inRuns(v, &k)
	if err != nil {
		return Tally{}, err
	}
	t.addMemory(v, &k, math.MaxInt64)
	return t, nil
}

// inRuns adds up what the tables of files say of a logical partition.
func inRuns(v *lsm.Version, k *item.Key) (t Tally, err error) {
	epk := partmap.HashEncoded(k.PK)
	for _, r := range v.Runs {
		f := r.Find(&epk)
		if f == nil {
			continue
		}
		items, raw, ok, err := f.PartitionStats(k)
		if err != nil {
			return Tally{}, err
		}
		if ok {
			t.Versions += int64(items)
			t.Bytes += int64(raw)
		}
	}
	return t, nil
}

// addMemory adds the newest versions of a logical partition in each memtable, until there
// are more than enough bytes. The caller is inside an epoch guard.
func (t *Tally) addMemory(v *lsm.Version, k *item.Key, enough int64) {
	first := *k
	first.ID = nil
	for i := -1; i < len(v.Frozen); i++ {
		table := v.Active
		if i >= 0 {
			table = v.Frozen[i].Table
		}
		c := table.Cursor(lsm.MaxSequence)
		for ok := c.SeekGE(&first); ok && item.ComparePartition(c.Key(), k) == 0 && t.Bytes <= enough; ok = c.Next() {
			t.Versions++
			t.Bytes += int64(len(c.Version().Body))
		}
	}
}
