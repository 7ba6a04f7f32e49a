// Package wal is the log of a store: every change is a record in it before it
// is anywhere else. One log serves all partitions; each is a stream in it, and
// one sync makes the records of all of them durable.
//
// # Format
//
// The log is a row of files, NUMBER.log, with numbers that follow each other.
// All integers are little-endian; every checksum is CRC-32C.
//
//	file header, 64 bytes
//	+--------+---------+--------+--------+--------+----------+------+-----+----------+
//	| magic  | version | cipher | number |   id   | store id | made |  0  | checksum |
//	|   8    |    4    |   4    |   8    |   8    |    16    |  8   |  4  |    4     |
//	+--------+---------+--------+--------+--------+----------+------+-----+----------+
//
//	record, at an offset that 16 divides
//	+--------+---------+--------+--------+-----+------+-------+------+---------+-----+
//	| header | payload | length | stream | seq | type | count | mark | payload | pad |
//	| sum  4 | sum   4 |   4    |   4    |  8  |  1   |   3   |  4   | length- | 0…  |
//	|        |         |        |        |     |      |       |      |   32    | 15  |
//	+--------+---------+--------+--------+-----+------+-------+------+---------+-----+
//
// The id is random, another one for each use of a file. made is the length with which
// the file was made. Both sums of a record are tied to the file's id and the record's
// offset. mark, in units of 16 bytes, is the synced-up-to mark: the length of the file
// that was durable when the record was formed. docs/wal.md has the format byte by byte.
//
// # Invariants
//
//  1. A file gets its number as a name only when its header is whole and durable.
//  2. Bytes of an earlier use of a file, of another file or of another place
//     never verify as a record.
//  3. The first record of a file is written after the file before it is sealed,
//     and a file is synced after those before it were. So a mark that says that
//     records of a file were synced vouches for the files before it, and so does a
//     noted length. The first file behind that one that is not whole ends the log.
//  4. What lies below a record's mark was durable before the record was
//     written. So a record that does not verify below the mark of one that
//     does is damage, never the trace of a crash.
//  5. Sequences, positions and the order in the files are one order.
//  6. A file is removed or used again only after a manifest that does not need it
//     is durable (the owner's part: FirstNeeded, manifest, Drop).
//  7. A log of an earlier run is never appended to.
//  8. After a write or sync failed nothing more is written or synced, and no
//     caller is told that its record is durable unless it was before. A write that
//     failed for lack of space is made again before any other.
//
// # What is durable after which call
//
//	Append, AppendNow      nothing; the record is in memory
//	Wait(pos, false)       the end of the process loses nothing up to pos
//	Wait(pos, true), Sync  a power cut loses nothing up to pos, or before the call
//	Vouch, Rotate          the same, before the call
//	Close                  everything, and once the owner has noted what it
//	                       returns, damage to any byte is found
//
// # Recovery
//
// The owner calls PrepareRecovery and Recover, notes Recovery.First and Closed in its manifest,
// durably, and then calls Create. Recover modifies nothing and gives the same result
// each time. It ends the log at the first record that does not verify if no mark vouches
// for it, and fails with a *fault.CorruptionError otherwise. A reader beside the owner
// does not call PrepareRecovery: it sets Options.Unsettled and calls nothing but Recover.
// Before Recover calls the end of such a file damaged or torn it reads once more what lies
// there.
//
// # Limits
//
// A payload is at most 1 GiB, a record counts at most 2^24-1 sequences, and
// decay of the newest records, which no mark covers yet, cannot be told from a
// torn write: Vouch, Rotate and Close narrow that window. Checksums find accidents,
// not attackers.
package wal
