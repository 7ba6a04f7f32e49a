// Command torture writes to a store in a child process, kills the child or cuts
// the power of its file system, and compares the store with a model that is not in the store.
//
//	go run . -kills 1000 -parallel 3                    on a plain directory, as any user
//	go run . -strace 100                                kills at the Nth of a class of system calls
//	sudo go run . -cuts 100 -fulls 10 -fs ext4,btrfs    on images of file systems, as root
//	go run . -damages 10000                             damages bytes of closed stores
//	go run . -soak 2h -setting tiny                     restarts; measures memory, descriptors, disk
//
// Stores and images lie in the directory for temporary files. With TMPDIR on a
// tmpfs a cycle is many times as fast, because no sync waits for a disk.
//
// # The story
//
// The child has several lanes. A lane is one logical partition, written by one
// goroutine. Its operations are upserts, creates, replaces with an etag, deletes, patches,
// batches, transactions, items that expire at once or in an hour, deletes of the whole
// partition, and calls that must be refused (a taken unique key, a wrong etag, a
// create of an item that exists, a replace of one that does not). One lane of four is in an
// opaque container. Operation n of a lane is drawn from the seed, the lane and n
// alone, so the child that writes it and the parent that checks it derive the same
// operation. Beside the lanes run flushes, compactions, splits and merges of partitions,
// checkpoints, backups, snapshots and queries, with limits so small that all of
// this happens often. Two consumers follow the change feeds.
//
// # The oracle
//
// The child reports on standard output which operation of which lane is
// acknowledged, and what the feeds have shown, with their positions. After the end
// of the child the parent opens the store and checks each lane:
//
//  1. The lane equals the model after some number of operations.
//  2. After a kill that number is at least the last acknowledged one. After a
//     power cut too, if writes were synced; then only the reports count that the parent had
//     read before the cut, because a sync during the cut may succeed falsely.
//  3. The number is at most that of the operation under way, and at least the last one that a
//     feed has shown.
//  4. Counts and queries by index give the results of the model.
//  5. The feeds, read on from the positions that were reported last, lose and invent
//     nothing, and show each lane in order. The feed of the opaque container shows all
//     versions: a copy that is kept by it equals the lane, and it must show each change of each
//     operation, also one that a later operation hides.
//
// In cycles that are drawn at random the parent also checks that Verify finds nothing, and
// that a backup and a checkpoint that the child has completed hold such a state, too. Then the
// next child goes on with the same store.
//
// What the child itself finds counts, whatever ends it: a wrong answer, damage that a
// snapshot or a backup meets, an error that its medium does not explain. It says so and
// exits at once, with status 4 for a violation and 3 for an error; a panic has 2. Only where a
// power cut or a device that fails may be the cause is 3 none.
//
// TestOracle plants faults, and the oracle must report each as a violation. -mutant
// makes the parent remove a document from each store before the check. A store with
// a violation is copied, and the output names the copy.
//
// # Power cuts
//
// An image of a file system is mounted through a loop device. The ioctl
// FS_IOC_SHUTDOWN without a flush of the journal ends all writing to it. The
// image then is in the state of a disk after a power cut. ext4 and XFS have this ioctl.
// It never tears a sector: the crash tests of the engine do that.
//
// btrfs does not have it. Its image lies in the file system of another image, an
// XFS, and there are two ways to cut it:
//
//   - btrfs: the XFS is shut down. Data that btrfs has written to its device without a flush
//     is in the page cache. The part of it that XFS has not written yet is lost, in no
//     particular order. That is a disk that loses its cache.
//   - btrfs-clone: the file of the image is cloned at a moment, while it is written.
//     The clone has every write that the device had completed, flushed or not. That is
//     a disk that loses nothing of its cache: it tests the order of writes, not flushes.
//
// # Full disks and devices
//
// A file takes all space but 2 MiB, until a write is refused. Then the file is removed, and
// the store must take writes again, at the latest after the next open: the parent carries out
// an operation of each lane there, after the check. For thin-ext4 and
// thin-btrfs the image lies, with holes, on a small tmpfs that is full: the file system
// notices that by failed writes. After the end of the child there is space again, and
// all writes that were acknowledged as synced must be there.
//
// # Damages
//
// Files of closed stores get flipped bits, sectors of zeros, of junk or of another
// file, lose their ends or grow. In lanes whose physical partition is damaged both an
// error and the right answer are allowed. All other lanes must be right, take
// writes and be right again after flushes, a split, a merge, a compaction and a reopen.
//
// # Soak
//
// -soak works on one store at a modest rate. It first fills the store; then the size of its
// live data stays about the same. Every few minutes the child is killed or closes
// the store, and the parent compares all data. The last fifth of the time is one
// life of the child, so that growth within a process shows too. Samples are taken while
// writers pause. The medians of the last sixth of the time must equal those from a
// tenth to a quarter of it, within tolerances that the source gives with reasons.
// The disk is measured after DB.Compact, when no container keeps versions for a time any more;
// the wait for that does not count as time of the soak.
// A measure without samples is a violation. An interrupt ends a soak early, in order and with
// its table.
//
// Mounts and images are removed at the end, also after an interrupt.
package main
