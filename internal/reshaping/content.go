package reshaping

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// An installation, and an eviction, which installs nothing, go through these steps:
//
//  1. The store manifest uses up the id of the new partition.
//  2. The new partition gets a directory. The items of the stream are written to
//     files there, as in a flush. Its manifest names the files, the sequence and
//     the entry (Content.Build).
//  3. The install locks of the old partitions are taken, so that their sets of files
//     do not change. Commit point: the store manifest names the new partition in
//     their place.
//  4. Under the commit locks of the old partitions, fences end their streams, and
//     the new partition takes their place in the routing table.
//  5. The directories of the old partitions are removed when the last reader has
//     left them.
//
// A crash before 3 leaves a directory that no manifest names. After a crash behind
// 3, the new partition is there, and the next open ignores the log records of the
// old ones.

// Content is what an installation puts into a new partition: the items of a stream, or
// nothing, and then the partition is absent.
type Content struct {
	Range  partmap.Range
	Seq    uint64           // newest sequence
	At     manifest.Applied // newest entry
	Source *transfer.Reader // nil: the partition is absent

	Codec   segment.Compression
	Dict    *segment.Dictionary
	Claim   func(*item.Key) bool // whether a key is that of a claim
	MostLen int                  // of a body, in bytes
	Latest  int64                // highest time stamp that an item may have
	// Ahead returns the error for a higher one; what says whose it is.
	Ahead func(what string, stamp int64) error
}

// ContentOf returns the content that a stream has.
func ContentOf(source *transfer.Reader) Content {
	return Content{Range: source.Range, Seq: source.Head.Seq, At: source.Head.At, Source: source}
}

// Build makes the directory and the files of the partition, durably. No store manifest
// names the partition yet.
// The rest are partitions beside it, which become absent.
func (c *Content) Build(ctx context.Context, p *physical.Partition, rest ...*physical.Partition) error {
	if err := c.build(ctx, p); err != nil {
		return err
	}
	for _, r := range rest {
		if err := (&Content{Range: r.Range}).build(ctx, r); err != nil {
			return err
		}
	}
	return p.Env.FS.SyncDir(manifest.PartitionsDir)
}

func (c *Content) build(ctx context.Context, p *physical.Partition) error {
	if err := storedir.MakePartition(p.Env.FS, p.Dir); err != nil {
		return err
	}
	var runs []*lsm.Run
	if p.Absent = c.Source == nil; !p.Absent {
		var err error
		if runs, err = c.write(ctx, p); err != nil {
			return err
		}
	}
	v := *p.Version.Load()
	v.SetRuns(runs)
	p.Version.Store(&v)
	p.Commit.LastSeq = c.Seq
	p.ReachLocked(c.At)
	p.Visible.Store(c.Seq)
	return p.StoreFiles(runs, c.Seq, c.At, nil)
}

// write writes the items of the stream to a run.
func (c *Content) write(ctx context.Context, p *physical.Partition) (runs []*lsm.Run, err error) {
	out := p.NewOutput(ctx, 0, nil, nil)
	defer out.Abandon()
	out.Codec, out.Dict = c.Codec, c.Dict
	var op logrecord.Operation
	for n := 1; ; n++ {
		if err = c.Source.Next(ctx, &op); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if err = out.Step(); err != nil {
			return nil, err
		}
		switch claim := op.Version.Flags == item.Claim; {
		case claim != c.Claim(&op.Key):
			return nil, c.Source.Refuse("no claim of this container")
		case len(op.Version.Body) > c.MostLen:
			return nil, c.Source.Refuse("no item of this partition")
		case op.Version.Modified > c.Latest:
			return nil, c.Ahead(fmt.Sprintf("item %d", n), op.Version.Modified)
		}
		if err = out.Add(&op.Key, &op.Version); err != nil {
			return nil, err
		}
	}
	if out.Items > 0 {
		r, err := out.Finish()
		if err != nil {
			return nil, err
		}
		runs = []*lsm.Run{r}
	}
	out.Published = true // from here on its files are removed with the directory
	return runs, nil
}

// Rest returns what is left of a range outside of an inner one.
func Rest(of, inner partmap.Range) (rest []partmap.Range) {
	for _, r := range []partmap.Range{{Min: of.Min, Max: inner.Min}, {Min: inner.Max, Max: of.Max}} {
		if !r.Empty() {
			rest = append(rest, r)
		}
	}
	return rest
}

// Replaced returns the partitions in whose place a partition with this range comes, of those
// of a container in key-space order. The range must be that of whole partitions or, if part
// is set, a part of it.
func Replaced(parts []*physical.Partition, rng partmap.Range, part bool) (first, n int, err error) {
	for i, p := range parts {
		if !p.Range.Overlaps(rng) {
			continue
		}
		if n++; n == 1 {
			first = i
		}
	}
	if n == 0 {
		return 0, 0, fmt.Errorf("%w: its range [%s, %s) lies elsewhere", fault.ErrInvalid, rng.Min, rng.Max)
	}
	low, high := parts[first].Range.Min.Compare(&rng.Min), parts[first+n-1].Range.Max.Compare(&rng.Max)
	if part && (low > 0 || high < 0) || !part && (low != 0 || high != 0) {
		return 0, 0, fmt.Errorf("%w: its range [%s, %s) is not that of whole physical partitions here: split at its ends", fault.ErrInvalid, rng.Min, rng.Max)
	}
	return first, n, nil
}

// Place returns what the store manifest says of a new partition that takes the place of the
// parents.
func (s *Steps) Place(p *physical.Partition) manifest.Partition {
	m := manifest.Partition{ID: uint32(p.ID), Container: s.Container, Min: slices.Clone(p.Range.Min.Bytes()), Max: slices.Clone(p.Range.Max.Bytes()), Absent: p.Absent}
	for _, parent := range s.Parents {
		m.Parents = append(m.Parents, uint32(parent.ID))
		p.Parents = append(p.Parents, parent.ID)
		p.InstallEpoch = max(p.InstallEpoch, parent.InstallEpoch+1)
	}
	return m
}
