package writebatch

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/cleavestore/cleave/internal/docpatch"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/uniquekey"
	"github.com/cleavestore/cleave/partmap"
)

// Rules are what the batches of a container have in common.
type Rules struct {
	Operations int             // that a batch has at most
	Bytes      int64           // that it has at most: keys, ids and documents
	Unique     *uniquekey.Keys // nil: the container has no unique keys
	Replicated bool            // the container takes entries only
	Follows    bool            // items without a time to live of their own follow the container's default
}

// Container is what a batch asks the container that it is for.
type Container interface {
	// Past says which items have expired.
	Past() lifetime.Past
	// Patched returns a document with a patch applied, and the time to live of the result,
	// that of lifetime.Stored. seq is the sequence of the document; 0: the batch itself has
	// written it. An error refuses the operation.
	Patched(ctx context.Context, id, doc []byte, seq uint64, p *docpatch.Patch) (patched []byte, ttl int64, err error)
}

// Batch is a list of operations on items of one logical partition. Documents and ids are
// copied. After Reset it can be used again without allocating.
type Batch struct {
	Ops     []Op  // beyond the length: buffers for reuse
	Size    int64 // bytes of keys, ids and bodies
	Scratch []byte

	in      Container
	rules   Rules
	pk      []byte      // encoded
	epk     partmap.EPK // of pk
	patches int         // operations that are patches
	order   []int32     // scratch: operations by id, then by index
	found   []Found     // scratch: the present version that each operation found
	checks  []condition
}

// condition is what a batch requires of an item besides its operations: that its version has
// a sequence or, for 0, that there is no item.
type condition struct {
	id      []byte
	ifMatch uint64
	found   Found
}

// Begin makes an empty batch ready for a logical partition. pk is its encoded key, which
// is borrowed.
func (b *Batch) Begin(in Container, r Rules, pk []byte, epk *partmap.EPK) {
	b.in, b.rules, b.pk, b.epk = in, r, pk, *epk
}

// Unbounded lifts the limit of bytes: the batch stands for a single write.
func (b *Batch) Unbounded() { b.rules.Bytes = math.MaxInt64 }

// kept is the size above which a buffer is not kept for reuse, keptOps the number of
// operations above which they are not.
const (
	kept    = 64 << 10
	keptOps = 100
)

// Reset removes the operations.
func (b *Batch) Reset() {
	for i := range b.Ops {
		b.Ops[i].Patch = nil
		if cap(b.Ops[i].data) > kept {
			b.Ops[i].data = nil
		}
	}
	if cap(b.Scratch) > kept {
		b.Scratch = nil
	}
	b.Ops, b.Size, b.patches, b.checks = b.Ops[:0], 0, 0, b.checks[:0]
}

// Release drops what an empty batch that is kept for reuse must not keep.
func (b *Batch) Release() {
	if cap(b.Ops) > keptOps {
		b.Ops = nil
	}
	clear(b.found)
	b.in, b.rules, b.pk, b.epk, b.checks = nil, Rules{}, nil, partmap.EPK{}, nil
}

// Len returns the number of operations and conditions.
func (b *Batch) Len() int { return len(b.Ops) + len(b.checks) }

// ItemKey returns the sort key of the item of operation i.
func (b *Batch) ItemKey(i int) item.Key { return b.Key(b.Ops[i].ID()) }

// Key returns the sort key of an item of the logical partition.
func (b *Batch) Key(id []byte) item.Key {
	return item.Key{Hash: b.epk.Head(), EPK: b.epk.Bytes(), PK: b.pk, ID: id}
}

// EPK returns the place of the logical partition.
func (b *Batch) EPK() *partmap.EPK { return &b.epk }

// Add adds an operation. The error is a *fault.LimitError; then the batch is as before.
func (b *Batch) Add(op Op, id, body []byte) error {
	size := b.sizeOf(id, body)
	if err := b.room(size); err != nil {
		return err
	}
	n := len(b.Ops)
	if n < cap(b.Ops) {
		op.data = b.Ops[:n+1][n].data[:0]
	}
	op.data = append(append(slices.Grow(op.data, len(id)+len(body)), id...), body...)
	op.idLen, op.earlier, op.final = len(id), -1, true
	b.Ops = append(b.Ops, op)
	b.Size += size
	if op.Verb == Patch {
		b.patches++
	}
	return nil
}

// room returns an error if the batch cannot take one more operation of size bytes.
func (b *Batch) room(size int64) error {
	if n, most := b.Len(), b.rules.Operations; n >= most {
		return &fault.LimitError{What: "batch", Unit: "operations", Size: int64(n) + 1, Limit: int64(most), Kind: fault.ErrTooLarge}
	}
	return b.fits(b.Size + size)
}

// Check adds a condition. Errors are those of Add.
func (b *Batch) Check(id []byte, ifMatch uint64) error {
	size := b.sizeOf(id, nil)
	if err := b.room(size); err != nil {
		return err
	}
	b.checks = append(b.checks, condition{id: bytes.Clone(id), ifMatch: ifMatch})
	b.Size += size
	return nil
}

// Replace replaces operation i, which is no patch, by another one on the same item. Errors
// are those of Add.
func (b *Batch) Replace(i int, op Op, body []byte) error {
	old := &b.Ops[i]
	more := int64(len(body) - len(old.Body()))
	if err := b.fits(b.Size + more); err != nil {
		return err
	}
	op.idLen, op.earlier, op.final = old.idLen, -1, true
	op.data = append(old.data[:old.idLen], body...)
	*old = op
	b.Size += more
	return nil
}

// sizeOf returns what an operation adds to Size.
func (b *Batch) sizeOf(id, body []byte) int64 { return int64(len(b.pk) + len(id) + len(body)) }

// fits returns an error if the batch may not have this many bytes.
func (b *Batch) fits(size int64) error {
	if size > b.rules.Bytes {
		return &fault.LimitError{What: "batch", Size: size, Limit: b.rules.Bytes, Kind: fault.ErrTooLarge}
	}
	return nil
}

// Link finds operations on the same item. It is needed before a commit, unless there is
// one operation for each item.
func (b *Batch) Link() {
	b.order = b.order[:0]
	for i := range b.Ops {
		b.order = append(b.order, int32(i))
	}
	slices.SortFunc(b.order, func(x, y int32) int {
		if c := bytes.Compare(b.Ops[x].ID(), b.Ops[y].ID()); c != 0 {
			return c
		}
		return int(x - y)
	})
	for n, i := range b.order {
		op := &b.Ops[i]
		op.earlier, op.final = -1, true
		if n > 0 {
			if before := b.order[n-1]; bytes.Equal(b.Ops[before].ID(), op.ID()) {
				op.earlier, b.Ops[before].final = before, false
			}
		}
	}
}
