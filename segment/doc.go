// Package segment writes and reads segment files: immutable, sorted, compressed
// files of item versions. The format to the byte is in docs/segment.md.
//
//	header 64 | dictionaries | groups | partitions | locator | offsets |
//	properties | checksums | footer 512
//
// Groups hold the items. A group has a checksum and holds neighbours of together
// about 512 bytes, or one larger document. It is compressed against a dictionary, by a
// codec that is decoded quickly (package lz) or by zstd. Partitions is a table of the
// logical partitions, locator a hash table from keys to groups, and offsets leads from
// the number of a group to its place. Each 4 KiB page of these tables has a checksum;
// the other sections have checksums of their own.
//
// Invariants:
//
//  1. Keys rise: by EPK, then partition key, then id. Versions of a key are
//     neighbours and fall in sequence.
//  2. No byte is used before the checksum over it was verified. Damage is a
//     *fault.CorruptionError with file and offset, never a wrong answer.
//  3. No slice of mapped memory leaves the package, except what IndexBytes.View
//     gives within Guard. A memory fault in a mapping becomes an error.
//  4. Decoders are bounded by the bytes they are given and by
//     ReaderOptions.MaxRaw; they never panic.
//
// A Writer takes versions in order. A Reader serves point reads (Get, Head),
// cursors over the keys as of a sequence, and walks over all versions. A Reader is
// safe for concurrent use; the last Release closes it.
//
// Durable: Writer.Finish syncs the bytes of the file, not its name. A file
// without its footer is no segment; nothing is recovered within one.
//
// Limits: bodies of MaxBody, 2^32-1 versions a file.
package segment
