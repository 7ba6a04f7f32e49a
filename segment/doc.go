// Package segment writes and reads segment files: immutable, sorted, compressed
// files of item versions. The format to the byte is in docs/segment.md.
//
//	header 64 | dictionaries | groups | partitions | locator | offsets |
//	properties | checksums | footer 512
//
// Groups hold the items: neighbours of together about 512 bytes, or one larger
// document, compressed against a dictionary by a codec that is decoded quickly (see
// lz.go) or by zstd, with a checksum.
// Partitions is a table of the logical partitions, locator a hash table from
// keys to groups, offsets gives groups by number. The 4 KiB pages of these tables
// have checksums, all else has its own.
//
// Invariants:
//
//  1. Keys rise: by EPK, then partition key, then id. Versions of a key are
//     neighbours and fall in sequence.
//  2. No byte is used before the checksum over it was verified. Damage is a
//     *fault.CorruptionError with file and offset, never a wrong answer.
//  3. No slice of mapped memory leaves the package. A memory fault in a mapping
//     becomes an error.
//  4. Decoders are bounded by the bytes they are given and by
//     ReaderOptions.MaxRaw; they never panic.
//
// A Writer takes versions in order, a Reader serves point reads (Get, Head),
// cursors over the keys as of a sequence, and walks over all versions; it is safe
// for concurrent use and closed by the last Release.
//
// Durable: Writer.Finish syncs the bytes of the file, not its name. A file
// without its footer is no segment; nothing is recovered within one.
//
// Limits: bodies of MaxBody, 2^32-1 versions a file.
package segment
