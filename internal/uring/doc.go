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
//  1. The kernel writes into a buffer only while its ReadAt waits.
//  2. A read that is not as it should be, in whatever way, is reported as not done: the
//     caller reads again by pread, which knows the errors.
//  3. No call waits for a place in a ring: if all are taken the read is not done.
//  4. While reads wait, one of their goroutines is the leader.
//
// Where io_uring is missing or forbidden, as in many containers, ReadAt does nothing. Rings
// are made by the first call, and closed when they are garbage: no goroutine belongs to
// them. Only package openfile uses this one. Everything is safe for concurrent use.
package uring
