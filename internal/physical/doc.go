// Package physical is one physical partition: its tree of memtables and files, the order
// of its writes, and what it takes over from the partitions that it replaced.
//
// A Partition knows its store by an Env and its container by a Family, and nothing else of
// them. Package engine owns the partitions. It routes calls to them, decides whether a
// write may happen, and makes the records that they get.
//
// # Commit
//
// The commit lock (Partition.Commit) orders the writes of a partition. A writer that holds
// it appends a record to the log, puts the versions into the active memtable, and calls
// NoteLocked. After it has released the lock, it calls Show with the Record that it got:
//
//	append ── put ── NoteLocked │ Env.Await ── publish
//	      commit lock held      │   no lock
//
// A Load does so for many writes at a time: it waits once for a batch of records, and
// publishes the newest one of each partition.
//
// # Succession
//
// A split, a merge or a move replaces parents by children (Succession). Until a child has
// flushed them, it inherits from its parents:
//
//   - their memtables, as frozen ones. The child sees them within its bounds and shares
//     them with the other child.
//   - their streams in the log, from the sequence up to which the parents had flushed. The
//     log keeps the records that the child needs, and replay puts them into the child.
//
// For each inherited stream, the child's manifest notes how far the child has flushed it.
// The inheritance has ended when the manifest names no stream.
//
// # Invariants
//
//  1. The sequences of a partition's records rise in the order of its log stream, and its
//     memtables get versions in that order.
//  2. Readers see a version only after its record, and every record before it in the
//     partition, has the durability that its writer asked for: a write that needs no sync
//     waits for the sync of one before it.
//  3. Versions leave the active memtable only by freezing it, under the commit lock. So a
//     record whose versions all went into one memtable is never divided.
//  4. A write that is published in a parent is published in each child: a writer either
//     finds the children and publishes there too, or has published before the children
//     took over the parent's visible sequence.
//  5. Children of several parents show nothing above what is durable of all of them: a
//     crash leaves a prefix of the writes of each parent.
//  6. The log keeps a record until the files of every partition that needs it have its
//     versions, or the versions were carried: written to the log again, durably.
//
// # Concurrency
//
// Methods that end in Locked need the commit lock. Nothing is written, synced or waited
// for under it, except by the log when its buffer is full. The order of the locks is in
// package engine's documentation.
package physical
