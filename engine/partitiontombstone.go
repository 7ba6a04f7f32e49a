package engine

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/partmap"
)

// tableGet is Table.Get, but it returns the partition tombstone if that deletes the item,
// or if the table has the tombstone and not the item.
func tableGet(t *memtable.Table, l *item.Lookup, maxSeq uint64, out *item.Version) bool {
	found := t.Get(l, maxSeq, out)
	if t.PartitionTombstones() == 0 {
		return found
	}
	whole := l.Key.Partition()
	var deleted item.Version
	if t.Get(whole.Lookup(), maxSeq, &deleted) && (!found || deleted.Seq > out.Seq) {
		*out, found = deleted, true
	}
	return found
}

// get is Reader.Get, or Reader.Head, but it returns the partition tombstone if that
// deletes the item, or if the file has the tombstone and not the item.
func (f *file) get(l *item.Lookup, maxSeq uint64, dst []byte, head bool, out *item.Version) (found bool, grown []byte, err error) {
	if head {
		grown = dst
		found, err = f.Head(l, maxSeq, out)
	} else {
		found, grown, err = f.Get(l, maxSeq, dst, out)
	}
	if err != nil {
		return false, dst, f.met(err)
	}
	if f.Properties().OfPartitions > 0 {
		var deleted item.Version
		seq, err := f.partitionTombstone(l.Key, maxSeq, &deleted)
		if err != nil {
			return false, dst, err
		}
		if seq > 0 && (!found || seq > out.Seq) {
			*out, found, grown = deleted, true, dst
		}
	}
	return found, grown, nil
}

// partitionTombstone finds the newest tombstone in the file, at or below maxSeq, of the
// logical partition of a key. It returns the tombstone's sequence, 0 if there is none.
func (f *file) partitionTombstone(k *item.Key, maxSeq uint64, out *item.Version) (uint64, error) {
	whole := k.Partition()
	found, err := f.Head(whole.Lookup(), maxSeq, out)
	if err != nil || !found {
		return 0, f.met(err)
	}
	return out.Seq, nil
}

// hasPartitionTombstones says whether any source has a partition tombstone, of any
// logical partition. Tombstones that are written later have sequences above those of
// present readers.
func (v *version) hasPartitionTombstones() bool {
	if v.tombstoned || v.active.PartitionTombstones() > 0 {
		return true
	}
	for i := range v.frozen {
		if v.frozen[i].PartitionTombstones() > 0 {
			return true
		}
	}
	return false
}

// partitionTombstone returns the sequence of the newest tombstone, at or below maxSeq, of
// the logical partition of a key, 0 if there is none. The caller is inside a guard.
func (v *version) partitionTombstone(k *item.Key, maxSeq uint64) (uint64, error) {
	var found item.Version
	whole := k.Partition()
	for i := -1; i < len(v.frozen); i++ {
		t := v.active
		if i >= 0 {
			t = v.frozen[i].Table
		}
		if t.PartitionTombstones() > 0 && t.Get(whole.Lookup(), maxSeq, &found) {
			return found.Seq, nil
		}
	}
	if !v.tombstoned {
		return 0, nil
	}
	epk := partmap.HashEncoded(k.PK)
	for _, r := range v.runs {
		f := r.find(&epk)
		if f == nil || f.Properties().OfPartitions == 0 {
			continue
		}
		if seq, err := f.partitionTombstone(k, maxSeq, &found); seq > 0 || err != nil {
			return seq, err
		}
	}
	return 0, nil
}

// deletedKeys says which versions were deleted with their logical partition, as of a
// sequence. Keys may come in any order. It keeps its answer for the last logical
// partition.
type deletedKeys struct {
	v     *version
	at    uint64
	any   bool // v has partition tombstones
	known bool // seq is that of key
	key   item.KeyCopy
	seq   uint64
}

// begin sets the version and the sequence. The sources of the version must stay until the
// last call of below.
func (d *deletedKeys) begin(v *version, at uint64) {
	d.v, d.at, d.any, d.known = v, at, v.hasPartitionTombstones(), false
}

// below returns the sequence below which items of the key's logical partition are
// deleted, 0 if none are.
func (d *deletedKeys) below(k *item.Key) (uint64, error) {
	if !d.any {
		return 0, nil
	}
	if d.known && item.SamePartition(k, &d.key.Key) {
		return d.seq, nil
	}
	seq, err := d.v.partitionTombstone(k, d.at)
	if err != nil {
		return 0, err
	}
	whole := k.Partition()
	d.key.Set(&whole)
	d.seq, d.known = seq, true
	return seq, nil
}

// hides says whether a version is deleted with its logical partition.
func (d *deletedKeys) hides(k *item.Key, v *item.Version) (bool, error) {
	seq, err := d.below(k)
	return v.Seq < seq, err
}

// deletedBefore finds versions that a partition tombstone among them deletes. It must see
// all versions in the order of keys, those of one key newest first.
type deletedBefore struct {
	key item.KeyCopy
	seq uint64 // of the newest partition tombstone of key; 0: none was seen
}

// hides says whether the next version is deleted.
func (d *deletedBefore) hides(k *item.Key, v *item.Version) bool {
	if !k.OfPartition() {
		return v.Seq < d.seq && item.SamePartition(k, &d.key.Key)
	}
	if d.seq == 0 || !item.SamePartition(k, &d.key.Key) {
		d.key.Set(k)
		d.seq = v.Seq
	}
	return false
}
