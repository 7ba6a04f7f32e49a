// Package throughput divides the provisioned throughput of a container over its physical
// partitions, in request units a second (RU/s).
//
// Each partition has a share, a weight that its manifest entry keeps; without one all
// partitions have equal parts. Redistribute changes shares, a reshape hands them on.
//
// Invariants:
//
//  1. No partition gets more than the limit of one partition, whatever its share.
//  2. Redistribute keeps the sum of the parts. It changes all of them or none.
//
// Functions do not change what they are given, but for the entries that Redistribute is
// given to change. There are no locks. Package meter limits one partition.
package throughput

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// leastRate is the lowest rate of a partition, in RU/s.
const leastRate = 1e-3

// Check returns an error if a container cannot have a throughput. limit is that of one
// partition, partitions the most that the container can have.
func Check(perSecond, limit float64, partitions int) error {
	if most := limit * float64(partitions); perSecond != 0 && !(perSecond >= 1 && perSecond <= most) {
		return fmt.Errorf("throughput of %v RU/s: 0, or between 1 and %v", perSecond, most)
	}
	return nil
}

// Partitions returns how many physical partitions a throughput takes.
func Partitions(perSecond, limit float64) int { return int(math.Ceil(perSecond / limit)) }

// Shares has the weights by which partitions share a throughput, by their ids.
type Shares map[partmap.PartitionID]float64

// SharesOf returns the shares of partitions. Between the commit and the swap of a reshape
// the manifest has the children and the routing table the parents: parents have the
// weights of their children.
func SharesOf(partitions iter.Seq[*manifest.Partition]) Shares {
	shares := make(Shares)
	for m := range partitions {
		shares[partmap.PartitionID(m.ID)] += m.ShareOr1()
		for _, parent := range m.Parents {
			shares[partmap.PartitionID(parent)] += m.ShareOr1() / float64(len(m.Parents))
		}
	}
	return shares
}

// Rate returns the part of a throughput that a partition has among others with the sum all
// of shares.
func (s Shares) Rate(id partmap.PartitionID, perSecond, all, limit float64) float64 {
	return max(leastRate, min(perSecond*s[id]/all, limit))
}

// Even gives all partitions equal parts.
func Even(parts []manifest.Partition) {
	for i := range parts {
		parts[i].Share = 0
	}
}

// MissingError says that a partition does not exist.
type MissingError partmap.PartitionID

// Error implements error.
func (e MissingError) Error() string {
	return fmt.Sprintf("there is no physical partition %d", uint32(e))
}

// Redistribute gives targets, by the ids of partitions, new rates. The sources give up in
// equal parts what the targets gain, or get what they lose. Without targets all have equal parts. After an error the
// parts are to be thrown away.
func Redistribute(parts []manifest.Partition, perSecond, limit float64, targets map[partmap.PartitionID]float64, sources []partmap.PartitionID) error {
	if perSecond == 0 {
		return errors.New("there is no throughput to redistribute")
	}
	if len(targets) == 0 {
		Even(parts)
		return nil
	}
	byID := make(map[partmap.PartitionID]*manifest.Partition, len(parts))
	all := 0.0
	for i := range parts {
		byID[partmap.PartitionID(parts[i].ID)] = &parts[i]
		all += parts[i].ShareOr1()
	}
	for _, p := range byID {
		p.Share = p.ShareOr1() / all * perSecond
	}
	wanted := 0.0
	for _, id := range slices.Sorted(maps.Keys(targets)) {
		p, rate := byID[id], targets[id]
		if p == nil {
			return MissingError(id)
		}
		if !(rate >= 1 && rate <= limit) {
			return fmt.Errorf("%v RU/s for physical partition %d: between 1 and %v", rate, id, limit)
		}
		wanted += rate - p.Share
		p.Share = rate
	}
	sources = slices.Compact(slices.Sorted(slices.Values(sources)))
	if len(sources) == 0 {
		return errors.New("no sources to redistribute throughput from")
	}
	for _, id := range sources {
		p := byID[id]
		if p == nil {
			return MissingError(id)
		}
		if _, both := targets[id]; both {
			return fmt.Errorf("physical partition %d is target and source", id)
		}
		rate := p.Share - wanted/float64(len(sources))
		if rate < 1 || rate > max(limit, p.Share) {
			return fmt.Errorf("physical partition %d would have %v RU/s: between 1 and %v", id, rate, limit)
		}
		p.Share = rate
	}
	return nil
}
