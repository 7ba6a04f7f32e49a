// Package memtable holds the newest versions of the items of one physical
// partition in memory until a flush writes them to a segment.
//
// One writer, whom the caller serialises, and any number of readers, who never
// wait and never lock. Every version is kept; a reader names the highest
// sequence that it may see. All of it lies in chunks of package arena: the
// garbage collector marks nothing, and the bytes count against the memory
// budget.
//
// # Layout
//
// A link is 32 bits: chunk number (14) and offset in the chunk in units of 8
// bytes (18); link 0 is none. Chunks grow from 8 KiB to 2 MiB; an entry over
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
// The order is unrolled: the expected range of hashes is cut into equal
// buckets, and each bucket that has a node owns a list of leaves. Keys outside
// the range fall into the first or last bucket. A leaf holds the links of the
// nodes from its bound, its lowest node, up to the bound of the next leaf. The
// first leaf of a bucket has none and holds what is below the second's. Put
// appends to a leaf, in no order, and looks at one other node at most as a rule:
// these are cold.
// Readers sort a copy.
//
// A full leaf is replaced by two, each in key order, or stays as it is and gets
// a neighbour if the new key is above all of it. A leaf is two lines of 64
// bytes, the first of a bucket at first one. Leaves and towers come from blocks
// of 4 KiB (a table's first: 1 KiB), apart from entries. What was replaced
// stays until Release, for readers in it: about as many bytes again as the
// leaves in use.
//
// A search goes down a skiplist of leaves. A bucket's levels above the lowest
// begin in its tower, which the first leaf names in place of lead, and which is
// made with the first leaf that needs it. The search compares bounds by what
// leaves say of them: their hash, and the 8 bytes of the id (lead) after those
// that it shares (agreed) with the id of another node of the logical partition
// (kin). Kin is the same node in most leaves of a logical partition, so that
// the key is compared with it once; after that another node is looked at only
// if these 8 bytes are equal.
//
// Point reads use an open-addressed table of slots, probed linearly from the
// upper bits of the tag. It doubles at a load of 3/4 by building another one,
// in order of the slots and without touching a node.
//
// Overwriting a key prepends a version and touches neither order nor slots.
//
// Beside that all versions are listed in the order in which they were put, in
// blocks of 64: | node link 4 | version link 4 | x 64. A directory of the blocks,
// on the Go heap, finds them. As long as sequences rise from put to put, that is
// the order of sequences; the table knows from which sequence on it is.
//
// # Invariants
//
//  1. Whatever a link leads to is complete before the link is stored, and every
//     link that readers follow is stored and loaded atomically (publish.go).
//  2. Nodes and versions never move and are never unlinked. Only the newest
//     link of a node changes after publication, but for Restore.
//  3. The versions of a node have strictly falling sequences.
//  4. Entries are appended to a leaf before its count, which is published,
//     covers them, and never change. A leaf is published with its bound as an
//     entry. Its bound, lead, kin and agreed never change.
//  5. Bounds rise strictly along the leaves of a bucket. An entry of a leaf is
//     not below its bound, and below the bound of its next leaf. Each node is
//     an entry of exactly one leaf that is in the list.
//  6. A bound never goes: a leaf is replaced, by one store on the lowest level,
//     by leaves of which the first has its bound, and which have its entries.
//     A replaced leaf does not change any more.
//  7. A bucket's occupied bit is set after its first leaf is linked.
//  8. A failed Put leaves nothing that a reader can tell; the structures it
//     completed (a page, a block, a larger slot table) serve the next Put.
//
// # Readers beside splits
//
// Let a read begin when its bound is learnt. Every leaf that it comes to was in
// the list at some time since then. For a leaf that it finds by a link of a
// leaf in the list, a head or a tower that is so: the writer finishes with a
// split before it publishes anything else. If the leaf with the link had been
// replaced, its links are those of the time when it was, at which the leaf they
// lead to was in the list, and by induction that time is after the beginning.
//
// So a leaf has all entries, of what lies before its next leaf's bound, that
// were published before the read began (invariants 5 and 6), and going on by its
// next link misses none: what is between its entries and that bound is newer.
// The bounds on the way rise, so that no key shows twice and none goes back.
// Two cases need more than a link. A seek compares again in the leaves behind
// the one that it found, since one with a lower bound may have been put
// between. And Prev from the lowest entry of a leaf is a seek for what is below
// it, which ends in a leaf with a bound below it and takes only entries below.
//
// A reader that learnt sequence S from the writer after Put returned sees all
// versions up to S; what is being put meanwhile has a higher sequence and is
// hidden by the reader's bound.
//
// # Lifetime
//
// Keys and bodies that readers get point into the chunks: they are valid until
// Release, read-only, and hold no reference of their own. The engine releases a
// table when no reader that could hold it is left. Nothing here is durable: the
// log is, and replaying it is idempotent, because a version not above the
// newest of its key is ignored.
//
// Limits: parts of keys as in package item, bodies of 1 GiB, 16,384 chunks.
package memtable
