package splitter

import (
	"bytes"

	"github.com/cleavestore/cleave/partmap"
)

// Kind is a kind of reshape.
type Kind uint8

// Kinds.
const (
	Split Kind = iota + 1
	Merge
	Move
	Install // of a partition that another store has exported
)

// String returns "split", "merge", "move" or "install".
func (k Kind) String() string {
	switch k {
	case Split:
		return "split"
	case Merge:
		return "merge"
	case Move:
		return "move"
	case Install:
		return "install"
	}
	return "none"
}

// Plan says which ranges take the place of which, in key-space order.
type Plan struct {
	Kind     Kind
	Parents  []partmap.Range
	Children []partmap.Range
}

// PlanSplit cuts a range at an EPK strictly inside of it.
func PlanSplit(r partmap.Range, at partmap.EPK) (Plan, error) {
	children, err := divide(r, at)
	return Plan{Kind: Split, Parents: []partmap.Range{r}, Children: children}, err
}

// PlanMerge joins two neighbours, the lower one first.
func PlanMerge(left, right partmap.Range) (Plan, error) {
	whole, err := join(left, right)
	return Plan{Kind: Merge, Parents: []partmap.Range{left, right}, Children: []partmap.Range{whole}}, err
}

// PlanMove puts the boundary of two neighbours, the lower one first, at another
// EPK strictly inside of both together.
func PlanMove(left, right partmap.Range, at partmap.EPK) (Plan, error) {
	whole, err := join(left, right)
	if err != nil {
		return Plan{}, err
	}
	children, err := divide(whole, at)
	if err == nil && at.Compare(&left.Max) == 0 {
		err = refuse(OutsideRange) // it is there
	}
	return Plan{Kind: Move, Parents: []partmap.Range{left, right}, Children: children}, err
}

func divide(r partmap.Range, at partmap.EPK) ([]partmap.Range, error) {
	if at.Compare(&r.Min) <= 0 || at.Compare(&r.Max) >= 0 {
		return nil, refuse(OutsideRange)
	}
	return []partmap.Range{{Min: r.Min, Max: at}, {Min: at, Max: r.Max}}, nil
}

func join(left, right partmap.Range) (partmap.Range, error) {
	if left.Empty() || right.Empty() || left.Max.Compare(&right.Min) != 0 {
		return partmap.Range{}, refuse(NotNeighbours)
	}
	return partmap.Range{Min: left.Min, Max: right.Max}, nil
}

// Boundary returns the EPK as a boundary between keys of this many levels: as
// wide as its whole levels need, so that it prints as the service prints it.
// One that distinguishes more than such keys can is refused.
func Boundary(at partmap.EPK, levels int) (partmap.EPK, error) {
	b := bytes.TrimRight(at.Bytes(), "\x00")
	if len(b) > levelBytes*levels {
		return at, refuse(TooFine)
	}
	wide := make([]byte, (len(b)+levelBytes-1)/levelBytes*levelBytes)
	copy(wide, b)
	return partmap.EPKFromBytes(wide)
}

const levelBytes = 16

// AmongKeys refuses a boundary above all keys, of which the first byte is below 0x40: no key could
// lie behind it.
func AmongKeys(at partmap.EPK) error {
	if b := at.Bytes(); len(b) > 0 && b[0] >= 0x40 {
		return refuse(OutsideRange)
	}
	return nil
}
