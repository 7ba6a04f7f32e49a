package layout

import (
	"context"
	"errors"
	"math"
	"path"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/throughput"
)

// Sharing says which segment files partitions have for themselves, and which
// they share: after a split both children have a name for each file of their
// parent, until it is written anew. It also says how partitions share the throughput of
// their container.
type Sharing struct {
	Own, Shared map[engine.PartitionID]int64   // bytes of the files that a partition has a name for
	Rates       map[engine.PartitionID]float64 // RU/s that a partition may consume; none: unlimited
	held        map[uint64]*heldFile
}

// heldFile is a segment file with the partitions that have a name for it.
type heldFile struct {
	bytes  int64
	owners []engine.PartitionID
}

// ReadSharing looks up the files of all partitions. Those that a writer removes
// meanwhile count nothing.
func (f *Files) ReadSharing(ctx context.Context) (*Sharing, error) {
	l, err := f.ReadLayout(ctx, ManifestsOnly, nil)
	if err != nil {
		return nil, err
	}
	s := &Sharing{
		Own: make(map[engine.PartitionID]int64), Shared: make(map[engine.PartitionID]int64),
		Rates: make(map[engine.PartitionID]float64), held: make(map[uint64]*heldFile),
	}
	for _, c := range l.Containers {
		s.divide(l, c)
		for _, p := range c.Partitions {
			if err := s.add(ctx, f, p); err != nil {
				return nil, err
			}
		}
	}
	for _, h := range s.held {
		for _, id := range h.owners {
			if len(h.owners) > 1 {
				s.Shared[id] += h.bytes
			} else {
				s.Own[id] += h.bytes
			}
		}
	}
	return s, nil
}

// divide divides the throughput of a container as its writer does.
func (s *Sharing) divide(l *Store, c *Container) {
	if c.Throughput == 0 {
		return
	}
	shares := throughput.SharesOf(func(yield func(*manifest.Partition) bool) {
		for i := range l.State.Partitions {
			if p := &l.State.Partitions[i]; p.Container == c.ID && !yield(p) {
				return
			}
		}
	})
	all := 0.0
	for _, p := range c.Partitions {
		all += shares[engine.PartitionID(p.ID)]
	}
	for id := range shares { // also of parents, which may be shown still
		s.Rates[id] = shares.Rate(id, c.Throughput, all, c.MaxThroughput)
	}
}

// RateText describes the rates of the physical partitions of a container.
func (s *Sharing) RateText(partitions []engine.PartitionStats) string {
	least, most := math.Inf(1), 0.0
	for i := range partitions {
		rate := s.Rates[partitions[i].ID]
		least, most = min(least, rate), max(most, rate)
	}
	low, high := humanize.Count(int64(least)), humanize.Count(int64(most))
	if low == high {
		return low + " for each physical partition"
	}
	return low + " to " + high + " for a physical partition"
}

func (s *Sharing) add(ctx context.Context, f *Files, p *Partition) error {
	seen := make(map[uint64]bool) // numbers: a partition may refer to a file twice
	for _, r := range p.Files.Runs {
		for _, ref := range r.Files {
			if err := ctx.Err(); err != nil {
				return err
			}
			if seen[ref.Number] {
				continue
			}
			seen[ref.Number] = true
			info, err := f.FS.Stat(path.Join(p.Dir, manifest.SegmentName(ref.Number)))
			if errors.Is(err, engine.ErrMissing) {
				continue
			}
			if err != nil {
				return err
			}
			h := s.held[info.ID]
			if h == nil {
				h = &heldFile{bytes: info.Size}
				s.held[info.ID] = h
			}
			h.owners = append(h.owners, engine.PartitionID(p.ID))
		}
	}
	return nil
}

// Total describes the files of some partitions, each counted once.
func (s *Sharing) Total(ids map[engine.PartitionID]bool) string {
	var bytes, files, shared, sharedFiles int64
	for _, h := range s.held {
		for _, id := range h.owners {
			if !ids[id] {
				continue
			}
			bytes += h.bytes
			files++
			if len(h.owners) > 1 {
				shared += h.bytes
				sharedFiles++
			}
			break
		}
	}
	text := humanize.Bytes(bytes) + " on disk in " + humanize.Plural(files, "file", "files")
	if sharedFiles > 0 {
		text += ", of which " + humanize.Bytes(shared) + " in " + humanize.Plural(sharedFiles, "file", "files") + " that several partitions share, counted once"
	}
	return text
}
