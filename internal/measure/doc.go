// Package measure drives a store with a workload and measures it: throughput,
// latencies, processor time and memory. Everything that compares stores uses
// it, so that each of them is measured by the same code.
//
// A Loop is closed: each of its goroutines begins an operation when its last
// one is done. What is timed is the call of the Store, not the making of its
// arguments; what a caller of the store would take for itself is measured
// apart, as Outcome.Client.
//
// Invariants:
//
//  1. Around the calls of the store nothing is allocated and no lock is shared,
//     except when documents are inserted.
//  2. Every read checks that it got the document that it asked for, every scan
//     touches the first and the last byte of each document.
//  3. The operations of a goroutine depend on the seed, its number and the
//     number of documents only. Inserts take the indexes that follow the
//     existing documents, each once.
//
// Latencies are kept from a nanosecond to a minute with three digits, in a
// quarter of a megabyte for each goroutine and kind of operation. Memory and
// written bytes are known on Linux only, processor time on Unix systems.
package measure
