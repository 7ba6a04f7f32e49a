// Package index finds documents by what they hold: for each value at each path
// of the documents of a file, the ordinals of the versions that have it. Segments
// carry an index as a section; the format to the byte is in docs/index.md.
//
//	offset 0 ┌───────────────────────────────┐
//	         │ bitmaps and blocks, mixed     │  a bitmap begins at a multiple of 32
//	         ├───────────────────────────────┤
//	         │ fence keys                    │
//	         │ fences, 16 each               │  a block: offset 8 │ bytes 4 │ end of its key 4
//	         │ policy, JSON                  │
//	         │ trailer, 128                  │
//	         └───────────────────────────────┘
//
//	block  = terms, about 4 KiB of them
//	term   = shared n ± │ bytes n ± │ its other bytes │ ordinals n ± │ posting     ± varint
//	posting, of 1 ordinal       ordinal ±
//	         of 2 to 511        bytes n ± │ first ordinal ± │ differences - 1 ± …
//	         of 512 or more     offset / 32 ± │ bytes n ± of a roaring bitmap, frozen format
//
// A term is a path, a type and a value, as bytes that sort in that order: see
// appendTerm. Types sort null, bool, number, string, array, object. All scalars
// that the policy includes have terms, and objects and arrays as such below a
// pattern with *.
//
// What is compared, as documents see it: types do not mix, an absent value is
// not null, numbers are doubles (-0 is 0, beyond their range ±Inf). Strings
// longer than MaxString bytes are cut, and values at paths longer than 1 KiB are
// not indexed: Span.Loose, Term.Cut and Compiled.Covers tell.
//
// Invariants:
//
//  1. Terms rise strictly from front to back. A fence's key is above all terms
//     of the block before and not above those of its block.
//  2. Ordinals of a posting rise strictly and lie below the number of versions.
//  3. The bytes are under the checksums of whoever holds them (Source), verified
//     before they are given out. Decoders check all the same that nothing they
//     follow leads out of the index; they never panic, and what they hold is
//     bounded by a block.
//  4. A Builder writes the same bytes for the same versions, whatever it had to
//     write to a temporary file. It holds DefaultLimit, once more that while it
//     sorts, the longest posting, and a hundredth of what it writes.
//
// A Reader is safe for concurrent use; it, and all that it gives, is valid as
// long as its source. Nothing here is durable by itself.
package index
