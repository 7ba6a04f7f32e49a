// Package memtable holds the newest versions of the items of one physical
// partition in memory until a flush writes them to a segment.
//
// A table has one writer at a time, which the caller ensures, and any number of readers.
// Readers never wait and never lock. A table keeps every version; a reader gives the highest
// sequence that it may see. All data lies in chunks of package arena: the garbage collector
// does not scan it, and its bytes count against the memory budget.
//
// # Layout
//
// A link has 32 bits: the chunk number (14) and the offset in the chunk in units of 8
// bytes (18). Link 0 is none. Chunks grow from 8 KiB to 2 MiB; an entry over
// 2 MiB has a chunk of its own. Widths in bytes, native byte order:
//
//	first chunk: | unused 8 | directory 4 x pages | slots 8 x 256 | ...
//
//	directory -> page:  | occupied 8 (a bit per bucket) | first leaf of bucket 4 x 64 |
//
//	leaf:  | hash 8 | lead 8 | bound 4 | kin 4 | count 4 | agreed 2 | ordered 1 | shape 1 |
//	       | next 4 x height | node link 4 x capacity |
//	shape: | lines 4 bits | height 4 bits |
//	tower: | levels 4 | next 4 x 8 | pad |
//
//	node:    | newest 4 | lengths 4 | EPK | PK | id | pad |
//	lengths: | EPK 6 bits | PK 13 bits | id 13 bits |
//	version: | seq 8 | modified 8 | expires 8 | older 4 | body length 4 | flags 1 | body | pad |
//
//	slot: | tag 4 (upper half of the item hash, by the seed of the table) | node link 4 |
//
// The sorted order is an unrolled list. The expected range of hashes is divided into equal
// buckets, and each bucket that has a node has a list of leaves. Keys outside
// the range are in the first or last bucket. A leaf holds links to the nodes from its bound,
// which is its lowest node, up to the bound of the next leaf. The first leaf of a bucket has
// no bound and holds the nodes below the bound of the second leaf. Put appends a link to a
// leaf, out of order, and reads at most one other node as a rule, because nodes are usually
// not in the processor's cache. Readers sort a copy.
//
// When a leaf is full, two leaves replace it, each in key order. But if the new key is above
// all keys of the leaf, the leaf stays and gets a neighbour. A leaf has two lines of 64
// bytes; the first leaf of a bucket has one line at first. Leaves and towers come from blocks
// of 4 KiB (the first block of a table: 1 KiB), separate from entries. Replaced leaves stay
// until Release, because readers may be in them. They take about as many bytes as the leaves
// in use.
//
// A search goes down a skiplist of leaves. The levels of a bucket above the lowest begin in
// its tower. The first leaf of the bucket links to the tower, in the place of lead; the tower
// is made together with the first leaf that needs it. The search compares the key with the
// bounds of leaves by data in the leaves: the hash of the bound, and 8 bytes of its id (lead).
// These 8 bytes follow the bytes (agreed) that the id shares with the id of another node of
// the logical partition (kin). Most leaves of a logical partition have the same kin, so the
// search compares the key with it once. After that it reads another node only if the 8 bytes
// are equal.
//
// Point reads use an open-addressed table of slots, with linear probing from the
// upper bits of the tag. At a load of 3/4 a table of twice the size replaces it. It is filled
// in the order of the slots, without reading a node.
//
// Overwriting a key prepends a version to its node, and changes neither order nor slots.
//
// The table also lists all versions in the order in which they were put, in
// blocks of 64: | node link 4 | version link 4 | x 64. A directory of the blocks,
// on the Go heap, finds them. As long as sequences rise from put to put, this is
// the order of sequences. The table knows the sequence from which on it is.
//
// # Invariants
//
//  1. An object is complete before a link to it is stored, and every
//     link that readers follow is stored and loaded atomically (publish.go).
//  2. Nodes and versions never move and are never unlinked. Only the newest
//     link of a node changes after publication, except in Restore.
//  3. The versions of a node have strictly falling sequences.
//  4. An entry is appended to a leaf before the leaf's count, which is published,
//     covers it, and never changes. A leaf is published with its bound as an
//     entry. Its bound, lead, kin and agreed never change.
//  5. Bounds rise strictly along the leaves of a bucket. An entry of a leaf is
//     not below its bound, and below the bound of its next leaf. Each node is
//     an entry of exactly one leaf that is in the list.
//  6. A bound never goes: one store on the lowest level replaces a leaf by leaves that
//     have its entries, the first of them with its bound. A replaced leaf does not change
//     any more.
//  7. A bucket's occupied bit is set after its first leaf is linked.
//  8. A failed Put leaves nothing that a reader can see. The structures that it
//     completed (a page, a block, a larger slot table) serve the next Put.
//
// # Readers beside splits
//
// A leaf is split while readers go along the list. Let a read begin when it learns the
// sequence up to which it may see.
//
// Every leaf that the read reaches was in the list at some time after the read began. This
// holds for a leaf that it reaches by a link of a leaf in the list, of a head or of a tower,
// because the writer finishes a split before it publishes anything else. If the leaf with the
// link has been replaced, its links are those of the time of its replacement. At that time
// the leaf to which they lead was in the list, and by induction that time is after the
// beginning of the read.
//
// So a leaf that the read reaches has all entries below the bound of its next leaf that were
// published before the read began (invariants 5 and 6). The read can go on by the link to the
// next leaf without missing any: nodes between the entries of the leaf and that bound are
// newer than the read. The bounds on the way rise, so no key shows twice, and none shows
// out of order.
//
// Two cases need more than a link. A seek compares again in the leaves behind
// the one that it found, because a leaf with a lower bound may have been inserted in between.
// Prev from the lowest entry of a leaf is a seek for the key below it. That seek ends in a
// leaf with a bound below that entry and takes only entries below it.
//
// A reader that learnt sequence S from the writer after Put returned sees all
// versions up to S. Versions that are put meanwhile have higher sequences, so the reader does
// not see them.
//
// # Lifetime
//
// Keys and bodies that readers get point into the chunks. They are read-only, valid until
// Release, and do not keep the table alive. The engine releases a
// table when no reader that could hold it is left. A table is not durable: the
// log is. Replaying the log is idempotent, because a version that is not above the
// newest version of its key is ignored.
//
// Limits: parts of keys as in package item, bodies of 1 GiB, 16,384 chunks.
package memtable
