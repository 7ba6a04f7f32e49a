package manifest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

// Bounds of numbers that are counted on from.
const (
	MaxID     = 1<<31 - 1 // of containers and physical partitions
	MaxNumber = 1<<62 - 1 // of files

	maxMillis = math.MaxInt64 / 1_000_000 // the longest time.Duration
)

// Check tests invariants 5 to 10 of the package.
func (s *Store) Check() error {
	if s.LastSeq > s.SeqLimit || s.SeqLimit > item.MaxSeq+1 {
		return fmt.Errorf("last sequence %d, limit %d: they rise in this order, to %d at most", s.LastSeq, s.SeqLimit, uint64(item.MaxSeq+1))
	}
	if s.NextContainer > MaxID || s.NextPartition > MaxID {
		return fmt.Errorf("the next container is %d, the next partition %d: at most %d", s.NextContainer, s.NextPartition, MaxID)
	}
	ranges := make(map[uint32][]partmap.Entry, len(s.Containers))
	names := make(map[string]bool, len(s.Containers))
	for i := range s.Containers {
		c := &s.Containers[i]
		if err := c.check(s); err != nil {
			return err
		}
		if _, ok := ranges[c.ID]; ok || names[c.Name] {
			return fmt.Errorf("container %d, %q: its number or its name is that of another one", c.ID, Clip(c.Name))
		}
		ranges[c.ID], names[c.Name] = nil, true
	}
	if err := s.CheckKeyLimits(); err != nil {
		return err
	}
	ids := make(map[uint32]bool, len(s.Partitions))
	for i := range s.Partitions {
		p := &s.Partitions[i]
		list, ok := ranges[p.Container]
		switch {
		case !ok:
			return fmt.Errorf("partition %d is of container %d, which is not there", p.ID, p.Container)
		case ids[p.ID]:
			return fmt.Errorf("partition %d is there twice", p.ID)
		case !(p.Share >= 0):
			return fmt.Errorf("partition %d has the share %v", p.ID, p.Share)
		}
		if err := s.used(p.ID); err != nil {
			return err
		}
		if err := s.used(p.Parents...); err != nil {
			return err
		}
		ids[p.ID] = true
		r, err := rangeOf(p.Min, p.Max)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p.ID, err)
		}
		ranges[p.Container] = append(list, partmap.Entry{ID: partmap.PartitionID(p.ID), Range: r})
	}
	for id, list := range ranges {
		if _, err := partmap.NewTable(list); err != nil {
			return fmt.Errorf("container %d: %w", id, err)
		}
	}
	for i := range s.Intents {
		for _, child := range s.Intents[i].Children {
			if err := s.used(child.ID); err != nil {
				return err
			}
			if ids[child.ID] {
				return fmt.Errorf("partition %d is there, and the child of a job that was not committed", child.ID)
			}
		}
	}
	return s.checkTimes()
}

// used says whether the numbers are those of partitions that were made.
func (s *Store) used(ids ...uint32) error {
	for _, id := range ids {
		if id == 0 || id >= s.NextPartition {
			return fmt.Errorf("partition %d, where the next one is %d", id, s.NextPartition)
		}
	}
	return nil
}

// checkTimes tests invariant 10, and what is kept of the log and of the past.
func (s *Store) checkTimes() error {
	if s.TimeHigh > item.MaxTime {
		return fmt.Errorf("time stamp %d", s.TimeHigh)
	}
	for i, m := range s.Marks {
		if m.Time > item.MaxTime || m.Seq > item.MaxSeq || i > 0 && (m.Time < s.Marks[i-1].Time || m.Seq < s.Marks[i-1].Seq) {
			return fmt.Errorf("mark %d of time %d and sequence %d is out of order", i, m.Time, m.Seq)
		}
	}
	for i, c := range s.LogClosed {
		if c.File == 0 || c.File > MaxNumber || c.Length < 0 || i > 0 && c.File <= s.LogClosed[i-1].File {
			return fmt.Errorf("log file %d of %d bytes is out of order", c.File, c.Length)
		}
	}
	if s.LogFirst > MaxNumber || len(s.History) > MaxHistory {
		return fmt.Errorf("log from file %d, %d jobs in the history", s.LogFirst, len(s.History))
	}
	return nil
}

func (c *Container) check(s *Store) error {
	switch {
	case c.ID == 0 || c.ID >= s.NextContainer:
		return fmt.Errorf("container %d, where the next one is %d", c.ID, s.NextContainer)
	case c.Name == "":
		return fmt.Errorf("container %d has no name", c.ID)
	case c.CopyOf == c.ID:
		return fmt.Errorf("container %d is a copy of itself", c.ID)
	case c.DefaultTTL < -1 || c.DefaultTTL > maxMillis || c.ChangeRetention < 0 || c.ChangeRetention > maxMillis:
		return fmt.Errorf("container %d: items live for %d ms, changes are kept for %d ms", c.ID, c.DefaultTTL, c.ChangeRetention)
	case !(c.MaxLogicalThroughput >= 0):
		return fmt.Errorf("container %d: a logical partition may consume %v RU/s", c.ID, c.MaxLogicalThroughput)
	}
	for i := range c.KeyLimits {
		l := &c.KeyLimits[i]
		key, err := partmap.FromEncoded(l.Key)
		switch {
		case err != nil:
			return fmt.Errorf("container %d: key of limit %d: %w", c.ID, i, err)
		case key.Len() != c.Levels || i > 0 && bytes.Compare(c.KeyLimits[i-1].Key, l.Key) >= 0:
			return fmt.Errorf("container %d: the key of limit %d has %d levels, or is out of order", c.ID, i, key.Len())
		case l.Bytes < 0 || math.IsNaN(l.Throughput) || l.Bytes == 0 && l.Throughput == 0:
			return fmt.Errorf("container %d: limit %d is %v RU/s and %d bytes", c.ID, i, l.Throughput, l.Bytes)
		}
	}
	return nil
}

// CheckKeyLimits says whether there are too many limits of single logical partitions.
func (s *Store) CheckKeyLimits() error {
	limits, bytes := 0, 0
	for i := range s.Containers {
		c := &s.Containers[i]
		if len(c.KeyLimits) > MaxKeyLimits {
			return fmt.Errorf("container %d has limits of %d logical partitions, at most %d", c.ID, len(c.KeyLimits), MaxKeyLimits)
		}
		limits += len(c.KeyLimits)
		for j := range c.KeyLimits {
			bytes += len(c.KeyLimits[j].Key)
		}
	}
	if limits > MaxStoreKeyLimits || bytes > MaxKeyLimitBytes {
		return fmt.Errorf("limits of %d logical partitions with keys of %d bytes in all containers, at most %d and %d", limits, bytes, MaxStoreKeyLimits, MaxKeyLimitBytes)
	}
	return nil
}

func rangeOf(lo, hi Bytes) (r partmap.Range, err error) {
	if r.Min, err = partmap.EPKFromBytes(lo); err == nil {
		r.Max, err = partmap.EPKFromBytes(hi)
	}
	if err == nil && r.Empty() {
		err = fmt.Errorf("empty range [%X, %X)", []byte(lo), []byte(hi))
	}
	return r, err
}

// Check tests invariants 11 to 13 of the package.
func (f *Files) Check() error {
	if f.Partition == 0 || f.Partition > MaxID {
		return fmt.Errorf("manifest of partition %d", f.Partition)
	}
	if f.FlushedSeq > item.MaxSeq || f.ChangeFloor > item.MaxSeq || f.Floor > MaxNumber {
		return fmt.Errorf("sequences %d and %d, file %d: at most %d and %d", f.FlushedSeq, f.ChangeFloor, f.Floor, uint64(item.MaxSeq), uint64(MaxNumber))
	}
	if a := f.Applied; a != nil && !a.Valid() {
		return fmt.Errorf("entry %d of time %d, with the default time to live %+v", a.Index, a.Time, a.TTL)
	}
	streams := map[uint32]bool{f.Partition: true}
	for _, in := range f.Inherits {
		if streams[in.Stream] || in.FlushedSeq > item.MaxSeq {
			return fmt.Errorf("stream %d up to %d, which it inherits, is its own, or there twice, or too high", in.Stream, in.FlushedSeq)
		}
		streams[in.Stream] = true
	}
	obsolete := make(map[uint64]bool, len(f.Obsolete))
	for _, number := range f.Obsolete {
		obsolete[number] = true
	}
	refs := make(map[uint64][]*File)
	for i := range f.Runs {
		r := &f.Runs[i]
		for _, e := range []*Expiring{r.Expiring, r.Aging} {
			if e != nil && (e.Items < 0 || e.First > e.Last || e.Last > item.MaxExpires) {
				return fmt.Errorf("run %d: %d items expire or age from %d to %d", i, e.Items, e.First, e.Last)
			}
		}
		for j := range r.Files {
			ref := &r.Files[j]
			if err := ref.check(); err != nil {
				return fmt.Errorf("run %d: %w", i, err)
			}
			if j > 0 && bytes.Compare(r.Files[j-1].Max, ref.Min) > 0 {
				return fmt.Errorf("run %d: file %d begins before the end of file %d", i, ref.Number, r.Files[j-1].Number)
			}
			if obsolete[ref.Number] {
				return fmt.Errorf("run %d: file %d is obsolete", i, ref.Number)
			}
			refs[ref.Number] = append(refs[ref.Number], ref)
		}
	}
	return checkTwice(refs)
}

// checkTwice tests invariant 13.
func checkTwice(refs map[uint64][]*File) error {
	for number, list := range refs {
		if len(list) == 1 {
			continue
		}
		slices.SortFunc(list, func(a, b *File) int { return bytes.Compare(a.Min, b.Min) })
		for i, ref := range list[1:] {
			if before := list[i]; bytes.Compare(before.Max, ref.Min) > 0 || before.Size != ref.Size || before.FooterCRC != ref.FooterCRC {
				return fmt.Errorf("file %d is named twice, for the same keys or with other contents", number)
			}
		}
	}
	return nil
}

func (f *File) check() error {
	if f.Number == 0 || f.Number > MaxNumber || f.Size <= 0 {
		return fmt.Errorf("file %d of %d bytes", f.Number, f.Size)
	}
	if p := f.Part; p != nil && p.Bytes < 0 {
		return fmt.Errorf("file %d: a part of %d bytes", f.Number, p.Bytes)
	}
	if _, err := rangeOf(f.Min, f.Max); err != nil {
		return fmt.Errorf("file %d: %w", f.Number, err)
	}
	return nil
}

// CheckFiles tests invariant 14: whether the manifest is that of the partition.
func (s *Store) CheckFiles(partition uint32, f *Files) error {
	if f.StoreID != s.StoreID || f.Partition != partition {
		return fmt.Errorf("manifest of partition %d of store %x in the place of partition %d of store %x", f.Partition, f.StoreID, partition, s.StoreID)
	}
	for _, in := range f.Inherits {
		if err := s.used(in.Stream); err != nil {
			return fmt.Errorf("stream that partition %d inherits: %w", partition, err)
		}
	}
	return nil
}
