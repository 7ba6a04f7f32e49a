// Package index finds documents by their values. An index lists, for each value at each
// path of the documents of a file, the ordinals of the versions that have it. A segment
// has its index as a section. docs/secondary-indexes.md has the format to the byte.
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
// A term is a path, a type and a value. Its bytes sort by path, then by type, then by value
// (appendTerm). Types sort null, bool, number, string, array, object. Each scalar that the
// policy includes has a term. Arrays and objects have terms too, without a value, where a
// pattern with * includes them.
//
// A composite index has one more term for each document: its values at several paths, one
// behind the other (composite.go).
//
// Terms compare as values of documents do: values of different types are never equal, an
// absent value is not null, numbers are doubles (-0 is 0, numbers beyond their range are
// ±Inf). A term holds at most MaxString bytes of a string, and values at paths longer than
// 1 KiB have no term. Span.Loose, Term.Cut and Compiled.Covers say where this makes an
// answer inexact.
//
// Bitmaps are in the format of the roaring library (github.com/RoaringBitmap/roaring). The
// library lists a posting, for compactions and comparisons, and counts what two postings
// have in common, through a view of the mapped bytes (view.go). Queries collect ordinals
// in a Set, which has a bit for each ordinal of a range, and this package has its own code
// to write a bitmap and to bring it into a Set. The comment at each piece of that code
// says how long the library takes, and names the benchmark.
//
// Invariants:
//
//  1. Terms rise strictly from front to back. The key of a fence is above all terms
//     of the block before, and not above those of its block.
//  2. Ordinals of a posting rise strictly and are below the number of versions.
//  3. A Source verifies the checksums of the bytes that it returns. Decoders check in any
//     case that no offset or length leads out of the index, cursors also that terms rise.
//     They never panic, and hold at most the terms of a block in memory, and 50 bytes for
//     each container of a bitmap.
//  4. A Builder writes the same bytes for the same versions, whether or not it used a
//     temporary file. It holds DefaultLimit, the same again while it sorts and joins, the longest
//     posting, a hundredth of what it writes, 16 bytes for each version with a time and
//     4 for each that is deleted or older.
//
// A Reader is safe for concurrent use. A Reader and all that it returns are valid as long
// as its Source. The package makes nothing durable.
package index
