// Command torture writes to a store in a child process, kills the child or cuts
// the power of its file system, and compares what it finds afterwards with a
// model that lives outside of the store.
//
//	go run . -kills 1000 -parallel 3                    on a plain directory, as anybody
//	go run . -strace 100                                killed at the Nth of a class of system calls
//	sudo go run . -cuts 100 -fulls 10 -fs ext4,btrfs    on images of file systems, as root
//	go run . -damages 10000                             bytes of closed stores are spoiled
//	go run . -soak 2h -setting tiny                     restarts; memory, descriptors, disk
//
// Stores and images lie in the directory for temporary files: with TMPDIR on a
// tmpfs a cycle is many times as fast, since no sync waits for a disk.
//
// # The story
//
// The child has some lanes. A lane is one logical partition, written by one
// goroutine: upserts, creates, replaces with an etag, deletes, patches, batches,
// transactions, items that expire at once or in an hour, deletes of the whole
// partition, and calls that must be refused (a taken unique key, a wrong etag, a
// create of what is there, a replace of what is not). One lane of four is in an
// opaque container. Operation n of a lane is drawn from the seed, the lane and n
// alone, so the child that writes it and the parent that checks it make the same
// one. Beside the lanes run flushes, settles, splits and merges of partitions,
// checkpoints, backups, snapshots and queries, with limits so small that
// everything happens often. Two consumers follow the change feeds.
//
// # The oracle
//
// The child says on standard output which operation of which lane is
// acknowledged, and what the feeds have shown, with their positions. After the end
// of the child the parent opens the store and asks for each lane:
//
//  1. The lane is the model after some number of operations, wholly.
//  2. After a kill that number is at least the last acknowledged one; after a
//     power cut too, if writes were synced. Only what the parent had read
//     before the cut counts: a sync that races with it may answer falsely.
//  3. It is at most the one that was under way, and at least what a feed has shown.
//  4. Counts and queries by index give what the model has.
//  5. The feeds, read on from the positions that were told last, lose and invent
//     nothing, and show each lane in order. That of the opaque container shows all
//     versions: a copy that is kept by it equals the lane.
//
// In one of some cycles, drawn at random, Verify finds nothing, and a backup and a
// checkpoint that the child has completed hold a state of the same kind. Then the
// next child goes on with the same store.
//
// TestOracle plants faults, each of which the oracle must call a violation. -mutant
// makes the parent take a document out of each store before it looks. A store with
// a violation is copied, and the copy named.
//
// # Power cuts
//
// An image of a file system is mounted through a loop device. The ioctl
// FS_IOC_SHUTDOWN without a flush of the journal ends all writing to it; the
// image then is what a disk has after a power cut. ext4 and XFS know the call.
// It never tears a sector: the crash tests of the engine do that.
//
// btrfs does not know it. Its image lies in the file system of another image, an
// XFS, and there are two ways to cut it:
//
//   - btrfs: the XFS is shut down. What btrfs has written to its device and not flushed
//     lay in the page cache; what XFS had not yet written of that is lost, in no
//     particular order. That is a disk that loses its cache.
//   - btrfs-clone: the file of the image is cloned at a moment, while it is written.
//     The clone has every write that the device had completed, flushed or not. That is
//     a disk that loses nothing of its cache: it tests the order of writes, not flushes.
//
// # Full disks and devices
//
// A file takes all space but 2 MiB, until a write is refused: then it goes, and
// the store must take writes again, or at the next open. For thin-ext4 and
// thin-btrfs the image lies, with holes, on a small tmpfs that is full: the file system
// learns of it by failed writes. After the end of the child the space is back, and
// what was acknowledged as synced must be there.
//
// # Damages
//
// Files of closed stores get flipped bits, sectors of zeros, of junk or of another
// file, lose their ends or grow. In lanes whose physical partition is damaged an
// error is right, and so is the whole answer; all others must be right, take
// writes and be right again after flushes, a split, a merge, a settle and a reopen.
//
// # Soak
//
// -soak works on one store at a modest rate. It first fills the store, whose live
// data then stay about as large. Every few minutes the child is killed or closes
// the store, and the parent compares all data; the last fifth of the time is one
// life, so that what grows within a process shows too. Samples are taken while
// writers pause. The medians of the last sixth of the time must be those from a
// tenth to a quarter of it, within tolerances that the source states with reasons.
// The disk after DB.Compact is measured when containers keep nothing for a time any more;
// that wait is not of the time of the soak.
// An interrupt ends a soak early, in order and with its table.
//
// Mounts and images are removed at the end, also after an interrupt.
package main
