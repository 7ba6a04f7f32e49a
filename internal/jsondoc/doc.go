// Package jsondoc reads a document once: it validates every byte and yields the
// id, the encoded partition key and the time to live. It is the only reader of
// JSON on the write path, so that a document has one meaning everywhere.
//
// What is a document: one JSON object (RFC 8259), white space around it allowed.
// Stricter than encoding/json, each with its own error kind:
//
//   - bytes that are not UTF-8, and \u escapes of half a surrogate pair
//     (ErrUTF8; encoding/json puts U+FFFD in their place)
//   - two members of one object with the same name, compared after unescaping
//     (ErrDuplicateName; encoding/json takes the last one)
//   - nesting deeper, or a document longer, than the limits allow (ErrTooDeep,
//     ErrTooLarge)
//
// Numbers may have any magnitude. Only partition keys and ttl are converted,
// to IEEE 754 doubles; one that overflows a double is refused there.
//
// Members with a meaning:
//
//	id, at the root    a string of 1 to 1,023 bytes (MaxID) without / and \
//	ttl, at the root   optional: -1 or a whole number from 1 to 2,147,483,647
//	the key paths      string, number, true, false or null, of a length that
//	                   package partmap allows; a path that leads nowhere, or
//	                   through an array, is undefined
//
// Invariants:
//
//  1. Each byte is read by the one scan; errors in the JSON itself win over
//     errors in the members with a meaning, which are checked after it.
//  2. Work is linear in the length of the document, whatever its names: an
//     object of up to 32 members is compared by a keyed 64-bit hash of the
//     names, a larger one through a hash table. The key is drawn when the
//     program starts.
//  3. A successful scan allocates nothing once the scanner's and the Doc's
//     scratch have grown to the documents at hand. A scanner keeps at most some
//     hundred KiB between scans.
//
// Limits: offsets are 32-bit, so a document has at most 2^31-1 bytes.
package jsondoc

import "github.com/cleavestore/cleave/internal/item"

// Limits of a document.
const (
	// DefaultMaxBytes is the document's length in bytes where Limits has none.
	DefaultMaxBytes = 2 << 20
	// DefaultMaxDepth is the nesting of objects and arrays where Limits has
	// none; the root object is level 1.
	DefaultMaxDepth = 128
	// MaxID is the length of an id in bytes, unescaped.
	MaxID = item.MaxID
	// MaxTTL is the largest time to live, in seconds.
	MaxTTL = 1<<31 - 1
)

// Limits bounds what a scan accepts. Zero means the default.
type Limits struct {
	MaxBytes int // length of the document in bytes
	MaxDepth int // levels of nested objects and arrays, the root included
}

// Doc is what a scan found. It may be used again for the next scan, which
// overwrites the bytes of ID and PK where they are the Doc's own.
type Doc struct {
	// ID is the unescaped id. It aliases the document if the id has no escapes,
	// else scratch that belongs to the Doc.
	ID []byte
	// IDStart and IDEnd are the offsets of ID in the document, without the
	// quotes; -1 if the id has escapes.
	IDStart, IDEnd int
	// PK is the encoded partition key (package partmap): one component per path,
	// in scratch that belongs to the Doc.
	PK []byte
	// TTL is the time to live in seconds, -1 for never; valid if HasTTL.
	TTL    int64
	HasTTL bool

	id []byte // scratch of ID
}

// reset forgets the last scan but keeps the scratch.
func (d *Doc) reset() {
	*d = Doc{IDStart: -1, IDEnd: -1, PK: d.PK[:0], id: d.id[:0]}
}
