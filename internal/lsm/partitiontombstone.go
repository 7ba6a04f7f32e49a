package lsm

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/partmap"
)

// GetFromTable is Table.Get, but it returns the partition tombstone if that deletes the item,
// or if the table has the tombstone and not the item.
func GetFromTable(t *memtable.Table, l *item.Lookup, maxSeq uint64, out *item.Version) bool {
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

// ReadVersion is Reader.Get, or Reader.Head, but it returns the partition tombstone if that
// deletes the item, or if the file has the tombstone and not the item.
func (f *File) ReadVersion(l *item.Lookup, maxSeq uint64, dst []byte, head bool, out *item.Version) (found bool, grown []byte, err error) {
	if head {
		grown = dst
		found, err = f.Head(l, maxSeq, out)
	} else {
		found, grown, err = f.Get(l, maxSeq, dst, out)
	}
	if err != nil {
		return false, dst, f.Met(err)
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
func (f *File) partitionTombstone(k *item.Key, maxSeq uint64, out *item.Version) (uint64, error) {
	whole := k.Partition()
	found, err := f.Head(whole.Lookup(), maxSeq, out)
	if err != nil || !found {
		return 0, f.Met(err)
	}
	return out.Seq, nil
}

// HasPartitionTombstones says whether any source has a partition tombstone, of any
// logical partition. Tombstones that are written later have sequences above those of
// present readers.
func (v *Version) HasPartitionTombstones() bool {
	if v.tombstoned || v.Active.PartitionTombstones() > 0 {
		return true
	}
	for i := range v.Frozen {
		if v.Frozen[i].PartitionTombstones() > 0 {
			return true
		}
	}
	return false
}

// PartitionTombstone returns the sequence of the newest tombstone, at or below maxSeq, of
// the logical partition of a key, 0 if there is none. The caller is inside a guard.
func (v *Version) PartitionTombstone(k *item.Key, maxSeq uint64) (uint64, error) {
	var found item.Version
	whole := k.Partition()
	for i := -1; i < len(v.Frozen); i++ {
		t := v.Active
		if i >= 0 {
			t = v.Frozen[i].Table
		}
		if t.PartitionTombstones() > 0 && t.Get(whole.Lookup(), maxSeq, &found) {
			return found.Seq, nil
		}
	}
	if !v.tombstoned {
		return 0, nil
	}
	epk := partmap.HashEncoded(k.PK)
	for _, r := range v.Runs {
		f := r.Find(&epk)
		if f == nil || f.Properties().OfPartitions == 0 {
			continue
		}
		if seq, err := f.partitionTombstone(k, maxSeq, &found); seq > 0 || err != nil {
			return seq, err
		}
	}
	return 0, nil
}

// DeletedKeys says which versions were deleted with their logical partition, as of a
// sequence. Keys may come in any order. It keeps its answer for the last logical
// partition.
type DeletedKeys struct {
	v     *Version
	at    uint64
	any   bool // v has partition tombstones
	known bool // seq is that of key
	key   item.KeyCopy
	seq   uint64
}

// Begin sets the version and the sequence. The sources of the version must stay until the
// last call of below.
func (d *DeletedKeys) Begin(v *Version, at uint64) {
	d.v, d.at, d.any, d.known = v, at, v.HasPartitionTombstones(), false
}

// below returns the sequence below which items of the key's logical partition are
// deleted, 0 if none are.
func (d *DeletedKeys) below(k *item.Key) (uint64, error) {
	if !d.any {
		return 0, nil
	}
	if d.known && item.SamePartition(k, &d.key.Key) {
		return d.seq, nil
	}
	seq, err := d.v.PartitionTombstone(k, d.at)
	if err != nil {
		return 0, err
	}
	whole := k.Partition()
	d.key.Set(&whole)
	d.seq, d.known = seq, true
	return seq, nil
}

// Hides says whether a version is deleted with its logical partition.
func (d *DeletedKeys) Hides(k *item.Key, v *item.Version) (bool, error) {
	seq, err := d.below(k)
	return v.Seq < seq, err
}

// DeletedBefore finds versions that a partition tombstone among them deletes. It must see
// all versions in the order of keys, those of one key newest first.
type DeletedBefore struct {
	key item.KeyCopy
	seq uint64 // of the newest partition tombstone of key; 0: none was seen
}

// Hides says whether the next version is deleted.
func (d *DeletedBefore) Hides(k *item.Key, v *item.Version) bool {
	if !k.OfPartition() {
		return v.Seq < d.seq && item.SamePartition(k, &d.key.Key)
	}
	if d.seq == 0 || !item.SamePartition(k, &d.key.Key) {
		d.key.Set(k)
		d.seq = v.Seq
	}
	return false
}
