package logrecord

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
)

// carriedBytes is the size from which a record of type Carried is complete.
const carriedBytes = 64 << 10

// CarriedBatch gathers versions in records of type Carried. In the log an item that was
// deleted with its logical partition must not follow the partition tombstone, which
// replay may have flushed by then: the caller adds versions in the order of their
// sequences, or leaves such items out.
type CarriedBatch struct {
	// Emit gets each record, none of whose versions is above highest. The payload is
	// valid until Emit returns.
	Emit    func(highest uint64, payload []byte) error
	payload []byte
	highest uint64
}

// Add adds a version.
func (b *CarriedBatch) Add(k *item.Key, v *item.Version) error {
	b.payload = AppendCarried(b.payload, k, v)
	b.highest = max(b.highest, v.Seq)
	if len(b.payload) < carriedBytes {
		return nil
	}
	return b.Flush()
}

// Mark adds the entry that the partition has applied last, in a record of its own.
func (b *CarriedBatch) Mark(seq uint64, at manifest.Applied) error {
	if err := b.Flush(); err != nil {
		return err
	}
	b.payload, b.highest = AppendMark(b.payload, seq, at), seq
	return b.Flush()
}

// Flush emits the record, if there is anything in it.
func (b *CarriedBatch) Flush() error {
	if len(b.payload) == 0 {
		return nil
	}
	err := b.Emit(b.highest, b.payload)
	b.payload, b.highest = b.payload[:0], 0
	return err
}
