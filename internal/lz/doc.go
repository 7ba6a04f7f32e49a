// Package lz is the byte codec of documents that are compressed with a dictionary. It
// knows blocks, dictionaries and nothing of segments.
//
// The number of copies in a document, and of branches that are predicted wrong, decide
// how fast it is decoded. So a block consists of pairs of one form only, each for some 25
// bytes of a document, and is decoded with hardly a branch (LZ77, with the fields of a
// pair at fixed places, after LZ4's description). S2 tells literals, near copies and far
// copies apart by a tag each, and takes three times as long against a dictionary
// (docs/performance.md).
//
//	block   = length of what it decodes to, varint │ pairs
//	pair    = tag 1 │ offset 2 │ wide: literals 1, low byte of the match 1 │ literals
//	tag       bits 0-1  number of literals            wide: bits 8-9 of the match
//	          bits 2-7  length of the match less 2    63: wide
//	wide      0 to 255 literals, then a match of 0 (none) to 1,023 bytes
//
// A match is copied from offset bytes before, 1 to 65,535. The dictionary lies before
// the block; a match that begins in the dictionary does not reach beyond its end.
//
// Invariants:
//
//  1. Segment files hold blocks: what a block means never changes.
//  2. A decoder takes any bytes. It writes within dst, reads within the capacities of
//     the block and the dictionary, and never panics.
//  3. Decoders stop where the caller has what it needs: the rest of dst is undefined.
//
// Package segment alone calls it. An Encoder serves one goroutine at a time; Positions
// and the functions serve any number.
package lz
