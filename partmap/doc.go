// Package partmap maps partition keys to places in the key space, and the key
// space to physical partitions.
//
// # Encoding
//
// A partition key has 1 to 3 levels, each a string, a number, a boolean, null
// or undefined. Its canonical encoding is the bytes that version 2 of the
// model's hash is computed over, one component a level, widths in bytes:
//
//	undefined   +----+        number   +----+--------------------------------+
//	            | 00 | 1               | 05 | IEEE 754 double, little-endian | 1 + 8
//	null        +----+                 +----+--------------------------------+
//	            | 01 | 1
//	false       +----+
//	            | 02 | 1      string   +----+--------------------+-----+
//	true        +----+                 | 08 | UTF-8, 0 to 2,048  | FF  | 1 + n + 1
//	            | 03 | 1               +----+--------------------+-----+
//	            +----+
//
// FF is no byte of UTF-8, so a component ends by itself and components follow
// each other without separators.
//
// # Text form
//
// In text a key is its JSON value, undefined a bare word; a key of several
// levels is the JSON array of them:
//
//	"acme"   2024   true   null   undefined   ["acme",2024,undefined]
//
// Strings are always quoted, so that "2024" and 2024, "null" and null stay
// apart.
//
// # Effective partition key
//
// The effective partition key (EPK) of one component is its murmur3 x64-128
// hash (h1, h2) with the two top bits clear; the components are hashed apart
// (kind Hash for one level, MultiHash for more):
//
//	 0       8      16      24      32      40      48
//	+-------+-------+-------+-------+-------+-------+
//	|  h2   |  h1   |  h2   |  h1   |  h2   |  h1   |   all big-endian
//	+-------+-------+-------+-------+-------+-------+
//	| level 1       | level 2       | level 3       |
//	 ^^ bits 7, 6 of the first byte of each level are 0
//
// A boundary of a range is an EPK too, of any length up to 48 bytes:
//
//	""  00… ────────── every key ────────── 3FFF…  40… ── no key ── "FF"
//	MinEPK                                                        MaxEPK
//
// The first byte of the encoding of a key that is placed by version 1 of the hash has the
// bit 40; such a key has one level. Its place is that of v1.go: the 32 bits of the hash,
// then the first bits of the value, in the width of a level. Version1 and FromVersion1
// translate boundaries to those of the service and back.
//
// # Invariants
//
//  1. One value has one encoding: negative zero is encoded as zero, NaN and the
//     infinities are no keys. Keys are equal exactly if their encodings are.
//  2. Every valid Key has 1 to MaxLevels levels, strings of at most MaxString
//     bytes of valid UTF-8 and at most MaxEncoded bytes of encoding. Only
//     FromTrusted trusts its caller for this.
//  3. EPKs are ordered as bytes, the shorter one padded with zeros: the EPK of
//     some levels is the lower bound of all keys that begin with these levels.
//  4. Ranges are half-open. Those of a Table begin at MinEPK, end at MaxEPK, and
//     each begins where the one before it ends: every EPK of a key lies in
//     exactly one.
//  5. Parse(k.String()) is k, which for a key of version 1 is that of version 2 with the
//     same value, FromEncoded(k.Encoded()) is k, ParseEPK(e.String())
//     is e, EPKFromBytes(e.Bytes()) is e.
//
// Markers, hash and order are part of the formats on disk and never change.
// Boundaries are stored, never computed again.
//
// Keys, EPKs, ranges and tables are immutable: all functions may be called from
// many goroutines. The package does no input or output.
package partmap
