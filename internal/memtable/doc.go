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
//	directory -> page: | occupied 8 (a bit per bucket) | head link 4 x 64 |
//	page -> head:      | height 4 | first node per level 4 x 13 |
//
//	node:    | newest 4 | previous 4 | hash 8 | lengths 8 | next 4 x height | EPK | PK | id | pad |
//	lengths: | EPK 2 | PK 2 | id 2 | height 2 |
//	version: | seq 8 | modified 8 | expires 8 | older 4 | body length 4 | flags 1 | body | pad |
//
//	slot: | tag 4 (upper half of the item hash) | node link 4 |
//
// Order is a skiplist with one node per key. The expected range of hashes is
// cut into equal buckets, and each bucket that has a node owns a head tower, so
// that a search begins a few nodes away from its end. The levels above the
// lowest end with the bucket; the lowest level runs through all buckets and is
// linked both ways. Keys outside the range fall into the first or last bucket.
//
// Point reads use an open-addressed table of slots, probed linearly from the
// upper bits of the tag. It doubles at a load of 3/4 by building another one,
// in order of the slots and without touching a node.
//
// Overwriting a key prepends a version and touches neither order nor slots.
//
// # Invariants
//
//  1. Whatever a link leads to is complete before the link is stored, and every
//     link that readers follow is stored and loaded atomically (publish.go).
//  2. Nodes and versions never move and are never unlinked. Only the newest
//     link of a node and the links of its tower change after publication.
//  3. The versions of a node have strictly falling sequences.
//  4. Nodes rise strictly by item.Compare along the lowest level.
//  5. A bucket's occupied bit is set after its first node is linked.
//  6. A failed Put leaves nothing that a reader can tell; the structures it
//     completed (a page, a head, a larger slot table) serve the next Put.
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
// Limits: parts of keys as in package item, bodies of 1 GiB, 16,384 chunks. The
// item hash is not keyed: ids made to collide turn point reads into walks.
package memtable
