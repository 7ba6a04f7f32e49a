// Command torture writes to a store in a child process, kills the child or cuts
// the power of its file system, and compares what it finds afterwards with a
// model that lives outside of the store.
//
//	go run . -kills 100                                 on a plain directory, as anybody
//	sudo go run . -kills 100 -cuts 100 -fs ext4,xfs     on images of file systems, as root
//	go run . -damages 1000                              bytes of a closed store are spoiled
//	go run . -soak 2h -setting tiny                     restarts; memory, descriptors, disk
//
// # The story
//
// The child has some lanes. A lane is one logical partition, written by one
// goroutine: upserts, deletes, patches, batches, transactions, deletes of the
// whole partition. Operation n of a lane is drawn from the seed, the lane and n
// alone, so the child that writes it and the parent that checks it make the same
// one. Beside the lanes run flushes, settles, splits and merges of partitions,
// checkpoints, backups, snapshots and queries, with limits so small that
// everything happens often.
//
// # The oracle
//
// The child says on standard output which operation of which lane is
// acknowledged. After the end of the child the parent opens the store and asks
// for each lane:
//
//  1. The lane is the model after some number of operations, wholly.
//  2. After a kill that number is at least the last acknowledged one; after a
//     power cut too, if writes were synced. Only what the parent had read
//     before the cut counts: a sync that races with it may answer falsely.
//  3. It is at most the one that was under way.
//  4. A count by index gives as many documents as the scan.
//  5. Verify finds nothing.
//  6. A backup that was complete restores to a store of which 1, 3 to 5 hold.
//
// Then the next child goes on with the same store. -mutant makes the parent
// take a document out of each store before it looks: every cycle must then be
// a violation, or the oracle is blind.
//
// # Power cuts
//
// An image of a file system is mounted through a loop device. The ioctl
// FS_IOC_SHUTDOWN without a flush of the journal ends all writing to it; the
// image then is what a disk has after a power cut. ext4 and XFS know the call.
// It never tears a sector: the crash tests of the engine do that.
//
// # Soak
//
// -soak works on one store at a modest rate. It first fills the store, whose live
// data then stay about as large. Every few minutes the child is killed or closes
// the store, and the parent compares all data; the last fifth of the time is one
// life, so that what grows within a process shows too. Samples are taken while
// writers pause. The medians of the last sixth of the time must be those from a
// tenth to a quarter of it, within tolerances that the source states with reasons.
// An interrupt ends a soak early, in order and with its table.
//
// Mounts and images are removed at the end, also after an interrupt.
package main
