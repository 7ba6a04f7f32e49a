package engine

import (
	"fmt"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/partmap"
)

// PartitionKey is the partition key value of an item: comparable, immutable, usable as a
// map key. The zero value is invalid. StringKey, NumberKey and the like make one. Its
// methods are those of partmap.Key: Valid, Len, the number of levels, Compare, in the order
// of the key space, String, the form that ParseKey reads, and MarshalText.
type PartitionKey = partmap.Key

// PartitionID numbers a physical partition of a store; it is never reused. It is a
// uint32.
type PartitionID = partmap.PartitionID

// StringKey returns the key for a string value of at most 2,048 bytes of valid
// UTF-8; otherwise it is invalid and calls with it fail.
func StringKey(s string) PartitionKey { return partmap.String(s) }

// NumberKey returns the key for a number; NaN and infinities are invalid.
func NumberKey(f float64) PartitionKey { return partmap.Number(f) }

// BoolKey returns the key for true or false.
func BoolKey(b bool) PartitionKey { return partmap.Bool(b) }

// NullKey returns the key for null.
func NullKey() PartitionKey { return partmap.Null() }

// UndefinedKey returns the key of documents that lack the property.
func UndefinedKey() PartitionKey { return partmap.Undefined() }

// JoinKeys returns the hierarchical key with these levels, at most three; it
// is invalid if one of them is, or if there are more.
func JoinKeys(parts ...PartitionKey) PartitionKey {
	key, err := partmap.Join(parts...)
	if err != nil {
		return PartitionKey{}
	}
	return key
}

// ParseKey reads the text form of a key: ["acme",2024,null,undefined] or one
// scalar; {} stands for undefined too.
func ParseKey(text string) (PartitionKey, error) {
	key, err := partmap.Parse(text)
	if err != nil {
		return key, fmt.Errorf("%w: partition key: %w", ErrInvalid, err)
	}
	return key, nil
}

// ETag names one version of an item. It never names another one, also after a
// delete and a create. Zero is no etag.
type ETag uint64

// String returns the quoted form, "" for zero.
func (e ETag) String() string {
	if e == 0 {
		return ""
	}
	return `"` + strconv.FormatUint(uint64(e), 16) + `"`
}

// ParseETag reads the form that String returns.
func ParseETag(text string) (ETag, error) {
	if text == "" {
		return 0, nil
	}
	if n := len(text); n > 2 && text[0] == '"' && text[n-1] == '"' {
		if v, err := strconv.ParseUint(text[1:n-1], 16, 64); err == nil && v != 0 {
			return ETag(v), nil
		}
	}
	return 0, invalidf("etag %q", jsondoc.Clip(text))
}

// Meta describes a version of an item.
type Meta struct {
	Key      PartitionKey
	ID       string
	ETag     ETag
	Seq      uint64    // position in the store-wide order of writes; of a replicated container in that of the physical partition
	Modified time.Time // milliseconds
	Expires  time.Time // milliseconds; zero: never
	// Charge is what the call cost, in request units. A read that returns ErrNotFound
	// and a write that is refused have it too. The cost of a scan is the sum over its
	// items: the first item of each physical partition carries the cost of visiting
	// that; see ScanOptions.Charge.
	Charge float64
	// Waited is how long the call waited for write buffers; writes only.
	Waited time.Duration
}

// Item is a document with its description. Body is the document as it was
// given, byte for byte; the caller may keep it and must not modify it: the ID may lie in
// it. But see Borrow.
type Item struct {
	Meta
	Body []byte
}

// WriteOptions are the options of one write. Nil means none.
type WriteOptions struct {
	// IfMatch, if not zero, must be the item's present etag, or the write fails
	// with ErrPrecondition, also where there is no item; but Create of an
	// existing item is ErrExists, Replace and Delete of a missing one
	// ErrNotFound.
	IfMatch ETag
	// TTL is how long the item lives from this write on, at least a millisecond; NoExpiry: for
	// ever. If not zero it replaces the document's member "ttl" and the container's DefaultTTL.
	// It is refused if DefaultTTL is 0.
	TTL time.Duration
	// Durability, if not zero, replaces the store's default. Interval is not
	// possible here.
	Durability Durability
	// Key, if valid, is the partition key that the document of a Create, Upsert
	// or Replace must have: ErrKeyMismatch if it has another. Replace needs it
	// where keys have a random suffix.
	Key PartitionKey
	// Charge, if not nil, is increased by what the call has cost, in request units, also
	// if it fails. It is not possible in batches and transactions.
	Charge *float64
	// PreTrigger and PostTrigger name a Trigger that runs before and one that runs after
	// the write, in its transaction; "": none. The write is then a Serializable Update, with
	// its errors, and reads the item first. Charge is that of all reads and writes. Not
	// possible in batches, transactions and DeleteLogicalPartition.
	PreTrigger, PostTrigger string
}

// charged adds what a call has cost.
func (o *WriteOptions) charged(ru float64) {
	if o != nil && o.Charge != nil {
		*o.Charge += ru
	}
}
