// Package jsondoc reads documents, so that a document has one meaning everywhere.
//
//	bytes ── Scanner ──► id, encoded partition key, time to live
//	         validates every byte, before the document is written
//	           ├─ scan      plain Go: any document, and the reason why one is refused
//	           └─ scanFast  the strings by vector instructions (package quotes), what
//	                        is between them by assembly (usual), the rest in Go
//
//	document ── Walker ──► names and values, one after the other
//	            checks nothing
//	              ├─ Selector   the values to which paths lead: of queries, of unique keys
//	              ├─ Members    the members of one object
//	              └─ Edit       a change of one place: of a patch
//
// # Documents
//
// A document is one JSON object (RFC 8259); white space around it is allowed. A
// scan is stricter than encoding/json, with an error kind for each case:
//
//   - bytes that are not UTF-8, and \u escapes of half a surrogate pair
//     (ErrUTF8; encoding/json puts U+FFFD in their place)
//   - two members of one object with the same name, compared after unescaping
//     (ErrDuplicateName; encoding/json takes the last one)
//   - nesting deeper, or a document longer, than the limits allow (ErrTooDeep,
//     ErrTooLarge)
//
// Numbers may have any magnitude. A scan converts those of partition keys and of
// ttl only, to IEEE 754 doubles; it refuses a key that overflows a double.
//
// Members with a meaning:
//
//	id, at the root    a string of 1 to 1,023 bytes (MaxID)
//	ttl, at the root   optional: -1 or a whole number from 1 to 2,147,483,647
//	the key paths      string, number, true, false or null, of a length that
//	                   package partmap allows; a path that leads nowhere, or
//	                   through an array, is undefined
//
// # Invariants
//
//  1. A scan reads every byte. Errors in the JSON itself win over errors in the
//     members with a meaning, which it looks at afterwards.
//  2. The work of a scan is linear in the length of the document, whatever its
//     names: it compares those of an object of up to 32 members by a keyed 64-bit
//     hash, those of a larger one through a hash table. The key is drawn when the
//     program starts.
//  3. scanFast accepts a document, where the processor has the instructions, if and
//     only if scan does, and both find the same. Only scan makes errors.
//  4. A successful scan allocates nothing once the scratch of the Scanner and of
//     the Doc has grown to the documents at hand. A Scanner keeps at most some
//     hundred KiB between scans.
//  5. In a document that a scan has accepted, a Walker finds what encoding/json
//     finds. In other bytes it finds some values and comes to the end.
//  6. A Value is a part of its document as it is written. Nothing changes the
//     bytes of a document; an Edit makes a new one.
//
// # Concurrency
//
// There are no locks. Paths and Selectors are immutable and may be shared. A
// Scanner, a Doc and a Walker serve one goroutine at a time.
//
// # Limits
//
// Offsets are 32-bit, so a document has at most 2^31-1 bytes.
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
