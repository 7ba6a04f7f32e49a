// Package backup copies a store as it is at one sequence. A backup is a stream that is
// written and read once, front to back; Restore makes a store of such streams again. A
// Checkpoint is a directory of linked files that opens like any store.
//
// Package engine takes the locks, and pins the files and versions that are copied; a
// Capture has those of a backup. No type of this package has a lock; a value is for one
// goroutine.
//
// # The stream
//
// A stream is a header, blocks and, as the last of them, a trailer. Integers are
// little-endian, checksums CRC32C; widths in bytes:
//
//	header:  | magic "cleavbak" 8 | version 4 | id 16 | zeros 8 | sum 4, of bytes 0 to 35 |
//	block:   | kind 1 | zeros 3 | length 4 | sum 4 | payload: length |
//
//	kind 1, catalog   a piece of the catalog: JSON
//	kind 2, records   | stream 4 | highest 8 | payload of a carried log record |
//	kind 3, data      a piece of a segment file
//	kind 4, trailer   | length of the stream 8 | blocks before this one 8 | sum of their sums 4 |
//
// The blocks come in this order: one or more of the catalog, then records, then
// data, then the trailer. The sum of a block covers the stream's id, the
// offset of the block in the stream, its first 8 bytes and its payload. So a
// block verifies in one place of one stream only. The sum in the trailer covers
// the sums of all blocks, as 4 bytes each. A stream ends with its trailer. Several
// streams may follow each other: a full backup and incremental ones, each the parent
// of the next.
//
// The catalog contains the manifests, and lists each segment file with its length and
// the checksum of its footer. It says which files are in the stream; the others are in
// the parents. The bytes of the files follow each other in the data blocks, in the order
// of the catalog; a block holds bytes of one file. The stream names files by numbers, so
// nothing in it becomes a path.
//
// The sequence in the catalog is the highest in the backup. LastSeq in its store manifest
// is the last one that the store gave out: a replicated container counts sequences of its
// own, which leave with it. Older programs wrote the highest there too.
//
// # Invariants
//
//  1. A stream whose trailer is missing or does not match is no backup.
//  2. The reader verifies the sum of a block before it returns anything of it.
//  3. A full backup has all files of its catalog in the stream. The catalog of an
//     incremental one gives the id and the sequence of the stream that it follows.
//  4. Every file that a manifest in the catalog names is in the list of files, with the
//     same length and checksum, and a manifest names every file in the list.
//  5. A restored store has its name, and a checkpoint its store manifest, only when it is
//     whole and on the disk.
//
// For every input, a reader holds one block, of at most MaxBlock bytes, and a
// catalog of at most as many bytes as were read. Damage is a
// *fault.CorruptionError with the offset in the input; an unknown version
// matches fault.ErrTooNew.
package backup

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/cleavestore/cleave/internal/manifest"
)

// Version is the newest version of the format. Version 2 is written where the catalog has
// limits of logical partitions, version 3 where it has absent ranges, version 4 where it has
// composite indexes, version 5 where it has keys of version 1, version 6 where the
// default time to live of a container can be changed, and version 1 otherwise.
const Version = 6

// version returns the version in which a backup with this catalog is written.
func (c *Catalog) version() uint32 {
	return uint32(manifest.StoreFormat(c.Store.Containers, c.Store.Partitions)) - 1
}

// MaxBlock bounds the payload of a block, in bytes.
const MaxBlock = 8 << 20

const (
	magic       = "cleavbak"
	headerBytes = 40
	blockBytes  = 12

	recordBytes  = 12 // of a records block, before the payload
	trailerBytes = 20
	pieceBytes   = 1 << 20 // of a catalog or of data in a block
)

type kind byte

const (
	kindCatalog kind = iota + 1
	kindRecords
	kindData
	kindTrailer
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// place begins the sum of a block: the id of the stream and the offset.
type place [24]byte

// blockSum is the checksum of a block: of its place, the kind and length in its
// header, and its payload.
func (p *place) blockSum(off int64, head, payload []byte) uint32 {
	binary.LittleEndian.PutUint64(p[16:], uint64(off))
	return crc32.Update(crc32.Update(crc32.Checksum(p[:], castagnoli), castagnoli, head[:8]), castagnoli, payload)
}

// addSum continues the sum of sums.
func addSum(sums, sum uint32) uint32 {
	return crc32.Update(sums, castagnoli, binary.LittleEndian.AppendUint32(nil, sum))
}
