package backup

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
)

// Catalog says what a backup is and what belongs to it.
type Catalog struct {
	ID        manifest.ID `json:"id"` // random, of this backup
	Parent    manifest.ID `json:"parent"`
	ParentSeq uint64      `json:"parent_seq"`
	Full      bool        `json:"full"` // there is no parent
	Seq       uint64      `json:"seq"`  // newest sequence in it
	Time      int64       `json:"time"` // when it was begun, milliseconds since the Unix epoch

	Store      manifest.Store   `json:"store"`      // its LastSeq leaves replicated containers out
	Partitions []manifest.Files `json:"partitions"` // in the order of those in Store
	Files      []File           `json:"files"`      // by number
}

// File is a segment file.
type File struct {
	Number    uint64 `json:"number"`
	Size      int64  `json:"size"` // bytes
	FooterCRC uint32 `json:"footer_crc"`
	Carried   bool   `json:"carried"` // it is in this stream, not in a parent
}

// same says whether two descriptions are of one content.
func (f *File) same(g *File) bool {
	return f.Number == g.Number && f.Size == g.Size && f.FooterCRC == g.FooterCRC
}

// Info describes a backup; it is what the next, incremental one needs to know.
type Info struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"`   // "": a full backup
	Store   string    `json:"store"`              // identity of the store
	Seq     uint64    `json:"seq"`                // newest sequence in it
	NextSeq uint64    `json:"next_seq,omitempty"` // sequence that the store gives out next; 0: not known, in JSON of an older program
	Time    time.Time `json:"time"`               // when it was begun
	Bytes   int64     `json:"bytes"`              // of the stream
	Files   []File    `json:"files"`              // segment files that belong to it, by number
}

func hexOf(id manifest.ID) string { return hex.EncodeToString(id[:]) }

// info describes a backup whose stream has so many bytes.
func (c *Catalog) info(bytes int64) Info {
	i := Info{
		ID: hexOf(c.ID), Store: hexOf(c.Store.StoreID), Seq: c.Seq, NextSeq: c.Store.LastSeq + 1,
		Time: time.UnixMilli(c.Time).UTC(), Bytes: bytes, Files: c.Files,
	}
	if !c.Full {
		i.Parent = hexOf(c.Parent)
	}
	return i
}

// CarriedBytes is the length of the files that the stream carries.
func (c *Catalog) CarriedBytes() (n int64) {
	for i := range c.Files {
		if c.Files[i].Carried {
			n += c.Files[i].Size
		}
	}
	return n
}

// ErrParent says that a backup is not the next after the one before it.
var ErrParent = errors.New("backup does not follow the one before it")

// Follow makes the catalog that of an incremental backup after parent, and
// takes the files that the parent has out of the stream.
func (c *Catalog) Follow(parent *Info) error {
	if parent.Store != hexOf(c.Store.StoreID) {
		return fmt.Errorf("%w: it is of store %s, not of %x", ErrParent, parent.Store, c.Store.StoreID)
	}
	// The sequences that a store gives out only rise. Those of a replicated container leave with it. Older programs
	// say only the highest of all.
	if parent.Seq > c.Seq && (parent.NextSeq == 0 || parent.NextSeq > c.Store.LastSeq+1) {
		return fmt.Errorf("%w: it has sequence %d, the store %d", ErrParent, parent.Seq, c.Seq)
	}
	if err := c.Parent.UnmarshalText([]byte(parent.ID)); err != nil {
		return fmt.Errorf("%w: its id: %w", ErrParent, err)
	}
	c.Full, c.ParentSeq = false, parent.Seq
	have := make(map[uint64]*File, len(parent.Files))
	for i := range parent.Files {
		have[parent.Files[i].Number] = &parent.Files[i]
	}
	for i := range c.Files {
		if f := have[c.Files[i].Number]; f != nil && f.same(&c.Files[i]) {
			c.Files[i].Carried = false
		}
	}
	return nil
}

// follows checks that the backup is the next after the one before, and that what
// it does not carry is there.
func (c *Catalog) follows(before *Catalog) error {
	switch {
	case c.Full:
		return fmt.Errorf("%w: it is a full one", ErrParent)
	case c.Store.StoreID != before.Store.StoreID:
		return fmt.Errorf("%w: it is of store %x, the one before of %x", ErrParent, c.Store.StoreID, before.Store.StoreID)
	case c.Parent != before.ID || c.ParentSeq != before.Seq:
		return fmt.Errorf("%w: it follows %x at sequence %d, the one before is %x at %d", ErrParent, c.Parent, c.ParentSeq, before.ID, before.Seq)
	}
	have := make(map[uint64]*File, len(before.Files))
	for i := range before.Files {
		have[before.Files[i].Number] = &before.Files[i]
	}
	for i := range c.Files {
		f := &c.Files[i]
		if old := have[f.Number]; !f.Carried && (old == nil || !old.same(f)) {
			return fmt.Errorf("%w: file %d is in neither of them", ErrParent, f.Number)
		}
	}
	return nil
}

// Check tests what invariants 3 and 4 say, and those of the manifests.
func (c *Catalog) Check() error {
	if err := c.Store.Check(); err != nil {
		return err
	}
	switch s := &c.Store; {
	case len(s.Intents) > 0 || s.LogFirst != 0 || len(s.LogClosed) > 0 || s.Clean:
		return errors.New("the store manifest names a log, or a reshape that was not committed")
	case len(c.Partitions) != len(s.Partitions):
		return fmt.Errorf("%d manifests of partitions, the store has %d", len(c.Partitions), len(s.Partitions))
	case c.Seq >= s.SeqLimit:
		return fmt.Errorf("sequence %d is not below the limit %d", c.Seq, s.SeqLimit)
	case c.Time > item.MaxTime:
		return fmt.Errorf("time %d", c.Time)
	case c.Full && (c.Parent != manifest.ID{} || c.ParentSeq != 0):
		return errors.New("a full backup with a parent")
	}
	files := make(map[uint64]*File, len(c.Files))
	var total int64
	for i := range c.Files {
		f := &c.Files[i]
		switch {
		case f.Number == 0 || f.Number > manifest.MaxNumber || i > 0 && f.Number <= c.Files[i-1].Number:
			return fmt.Errorf("file %d is not in order", f.Number)
		case f.Size <= 0 || f.Size > maxTotal-total:
			return fmt.Errorf("file %d of %d bytes", f.Number, f.Size)
		case c.Full && !f.Carried:
			return fmt.Errorf("file %d is not in the stream of a full backup", f.Number)
		}
		total += f.Size
		files[f.Number] = f
	}
	named := make(map[uint64]bool, len(files))
	for i := range c.Partitions {
		p := &c.Partitions[i]
		if err := c.Store.CheckFiles(c.Store.Partitions[i].ID, p); err != nil {
			return err
		}
		if err := p.Check(); err != nil {
			return fmt.Errorf("partition %d: %w", p.Partition, err)
		}
		if len(p.Obsolete) > 0 || p.FlushedSeq > c.Seq {
			return fmt.Errorf("partition %d: flushed up to %d, with %d obsolete files", p.Partition, p.FlushedSeq, len(p.Obsolete))
		}
		for _, r := range p.Runs {
			for j := range r.Files {
				ref := &r.Files[j]
				if f := files[ref.Number]; f == nil || f.Size != ref.Size || f.FooterCRC != ref.FooterCRC {
					return fmt.Errorf("partition %d: file %d is not as in the list", p.Partition, ref.Number)
				}
				named[ref.Number] = true
			}
		}
	}
	if len(named) != len(files) {
		return fmt.Errorf("%d files, of which manifests name %d", len(files), len(named))
	}
	return nil
}

// maxTotal bounds the length of all files together.
const maxTotal = 1 << 60
