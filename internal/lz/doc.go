// Package lz is the codec of documents that are compressed with a dictionary. It
// knows blocks and dictionaries, and nothing of segments.
//
// Two things decide how fast a document is decoded: how many copies it takes, and how many
// branches are mispredicted. So a block consists of pairs of one form only, each for some 25
// bytes of a document, and its decoder has hardly a branch that depends on the data. (It is
// LZ77, with the fields of a pair at fixed places, after the description of LZ4.) S2 marks
// literals, near copies and far copies by different tags, and takes three times as long to
// decode against a dictionary (docs/performance.md).
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
//  1. Segment files contain blocks, so the meaning of a block never changes.
//  2. A decoder accepts any bytes. It writes within dst, reads within the capacities of
//     the block and the dictionary, and never panics.
//  3. A decoder stops when it has written what the caller needs: the rest of dst is undefined.
//
// Only package segment calls it. An Encoder serves one goroutine at a time; Positions
// and the functions serve any number.
package lz
