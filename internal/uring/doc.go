// Package uring reads from files without holding a processor of the Go scheduler, by
// io_uring of Linux. A goroutine in pread keeps its processor until the runtime takes it
// away, which it does after 20 µs to 10 ms; as many such goroutines as there are
// processors stop the whole program meanwhile. A goroutine in ReadAt is parked like one
// that waits for a channel.
//
//	ReadAt ──► ring: one system call hands the read to the kernel
//	wake   ◄── the network poller of the runtime sees that the ring has results; one of
//	           the readers that wait, the leader, takes them for all
//
// # Invariants
//
//  1. The kernel writes into buffers of the ring only, and never into one that another
//     read uses. What it has read is copied: a read of 4 KiB costs some 0.2 µs more.
//  2. A read that is not as it should be, in whatever way, is reported as not done: the
//     caller reads again by pread, which knows the errors.
//  3. No call waits for a place in a ring: if all are taken the read is not done.
//  4. While reads wait, one of their goroutines is the leader.
//  5. No call waits for much longer than late. The kernel completes a read on the thread that
//     has handed it over, and that thread may be in a sync of another goroutine meanwhile,
//     for as long as the device takes for it. Such a read is left to the kernel, with its
//     place, and the caller reads again by pread. The place is free, and the ring may be
//     garbage, when the kernel is done with it.
//
// Where io_uring is missing or forbidden, as in many containers, ReadAt does nothing. Rings
// are made by the first call, and closed when they are garbage: no goroutine belongs to
// them. Only package openfile uses this one. Everything is safe for concurrent use.
package uring
