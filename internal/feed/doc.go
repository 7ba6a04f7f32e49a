// Package feed puts the changes of a container in order, for package engine, which alone
// calls it and makes the public change feed of it.
//
// A Feed divides its range into parts. A part is a range of keys in one physical
// partition, with the sequence up to which the feed has shown it. The parts take
// turns. In its turn, a part shows batches one by one:
//
//  1. The window begins at the sequence of the part. It ends at the newest visible
//     sequence of the partition. The log is synced up to there, unless it was.
//  2. The versions that files have in the window are put in order (order.go),
//     outside of any guard and in steps, so that no file is held for long.
//  3. In an epoch guard, the memtables and the ordered files are merged by
//     sequence (source.go), and the changes of a batch are copied (batch.go).
//  4. Outside of the guard, the changes are passed to the loop.
//
// After a split, a part can span several partitions: then it is cut. Neighbouring
// parts with the same sequence are joined.
//
// A part is also cut if its files have more versions in the window than are put in
// order at once. Its first logical partitions come first, up to the end of the
// window, then other parts, then the rest. So the memory of the feed is bounded,
// files are read range by range, and the head of each version is read once.
//
// A partition can have several parts, after a merge of partitions or a cut. A part
// that is behind first catches up with the next one, so that they can be joined.
//
// # Invariants
//
//  1. Within a logical partition changes are shown in the order of sequences, each once.
//  2. A change is shown when it is visible and no crash can undo it.
//  3. A version is hidden only by a newer version that no crash can undo.
//  4. While the loop has a change, the feed holds no guard, file, memtable or lock.
//  5. The text of a Position is stored by users. It does not change.
//
// # Concurrency
//
// One goroutine runs a Feed. Others may call Feed.State. Followers are shared by the feeds
// of a container and its writers: a write that no feed waits for costs one atomic load.
package feed
