// Package writebatch commits the operations of a batch to a physical partition: what they
// require of the present versions of their items, and the versions that they write. A
// transaction and each batch of an entry of a replicated log are committed like a batch.
//
// A Batch collects operations on the items of one logical partition. A Commit is one try to
// write them. Package engine routes it to a partition, asks whether writes are admitted,
// takes the commit lock, and shows the record:
//
//	Link ── LookAhead ── Weigh, Measure │ JudgeLocked ── WriteLocked │ physical.Partition.Show
//	            no lock                 │     commit lock held       │        no lock
//
// An Entry does the same with several commits, which become one record.
//
// JudgeLocked judges the operations in order, each against the present version of its
// item, or against what an earlier operation of the batch leaves. A transaction judges no
// operation: it is refused if an item that it wrote, or has read, has changed since its
// sequence. See also internal/conflict. In a container with unique keys the batch writes
// claims too, behind its operations: see internal/uniquekey.
//
// # Invariants
//
//  1. A batch is one record of the log. Operation i has the sequence of the record plus i,
//     and claims follow. In an entry, a mark with the index comes first.
//  2. All versions of a record are put into one memtable, under one hold of the commit
//     lock. So no memtable, and no flush, ends in the middle of them.
//  3. Nothing is appended or put before all of the batch was judged: a refusal changes
//     nothing.
//  4. What LookAhead has found in files holds while the partition has the same set of
//     files. JudgeLocked tests that, and asks the memtables again; if the set has changed,
//     the error is ErrAgain.
//  5. The document that a patch makes is written only if the patch was applied to the
//     present version.
//  6. The effect of an entry depends only on the entries before it, and on nothing that
//     this replica alone knows.
//
// Commit point: the record is durable.
//
// # Concurrency
//
// A Batch, a Commit and an Entry serve one goroutine. Methods that end in Locked need the
// commit lock of the partition.
package writebatch
