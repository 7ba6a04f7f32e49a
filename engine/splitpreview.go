package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/internal/reshaping"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// SplitPreview says what a split of a physical partition would leave on each side.
type SplitPreview struct {
	Partition PartitionID `json:"partition"`
	At        string      `json:"at"` // the boundary between the children, hexadecimal
	// LeftBytes and RightBytes are the sizes of the documents on either side, keys and
	// overwritten versions included. Memtables count where they hold an eighth of the
	// partition or more.
	LeftBytes  int64 `json:"left_bytes"`
	RightBytes int64 `json:"right_bytes"`
}

// PreviewSplit says what Split would do, and changes nothing. It reads tables of the
// files, no documents, and works on a store that is open ReadOnly. Errors: ErrNotFound if
// the container has no such partition, ErrInvalid for the boundary, *Refusal if Split
// would be refused.
func (c *Container) PreviewSplit(ctx context.Context, id PartitionID, o *SplitOptions) (SplitPreview, error) {
	c, call, err := c.enterNewest(ctx)
	if err != nil {
		return SplitPreview{}, err
	}
	defer call.Leave()
	p := c.partition(id)
	if p == nil {
		return SplitPreview{}, c.noPartition(id)
	}
	choice, err := p.weighCut(o)
	if refusal, ok := errors.AsType[*splitter.Refusal](err); ok {
		err = &Refusal{RefusalReason(refusal.Reason)}
	}
	if err != nil {
		return SplitPreview{}, fmt.Errorf("split of partition %d: %w", id, err)
	}
	return SplitPreview{Partition: id, At: choice.At.String(), LeftBytes: choice.Left, RightBytes: choice.Right}, nil
}

// weighCut returns the cut that a split would make, with what lies on each side.
func (p *partition) weighCut(o *SplitOptions) (choice splitter.Choice, err error) {
	switch {
	case p.Lost != nil:
		return choice, p.Lost
	case p.c.routing.Load().table.Len() >= maxPartitions:
		return choice, &splitter.Refusal{Reason: splitter.TooMany}
	}
	if o == nil || o.At == "" {
		return reshaping.Weigh(&p.Tree, nil)
	}
	at, err := partmap.ParseEPK(o.At)
	if err != nil {
		return choice, fmt.Errorf("%w: boundary: %w", ErrInvalid, err)
	}
	if end := partmap.MaxEPK(); at.Compare(&end) == 0 {
		return choice, invalidf("boundary %s is the end of the key space", o.At)
	}
	return reshaping.Weigh(&p.Tree, &at)
}
