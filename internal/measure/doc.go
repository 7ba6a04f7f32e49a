// Package measure drives a store with a workload and measures it: throughput,
// latencies, processor time and memory. Everything that compares stores uses
// it, so that each of them is measured by the same code.
//
// A closed Loop begins an operation when the worker's last one is done. It finds
// how much a store can do; its latencies leave out what callers would have
// waited who came while the store was busy. An open Loop has a rate: operation i
// is due i/rate after the start, whatever became of those before it. Three
// durations are kept of each:
//
//	due     woken  called        returned
//	 |--lag--|-------|---service----|
//	 |-----------response-----------|
//
// The service time is that of the call of the Store, without the making of its
// arguments, which happens before the operation is due (of an insert, then); what a caller of the
// store would take for itself is measured apart, as Outcome.Client. The response
// time counts from the due moment when all workers were busy then: so a stall is
// charged to every operation that it kept from being begun. When a worker was
// free and slept, it counts from when the clock woke it, but from no later than
// the due moment plus the lag that the clock has without a store (half of its
// wake-ups, as Clock.Calibrate found): the clock's part is not the store's, and
// what is later than usual may be. The lag itself is kept too; above a tenth of
// the response times it makes them Suspect.
//
// Invariants:
//
//  1. Around the calls of the store nothing is allocated and no lock is shared,
//     except when documents are inserted; what a Trace takes is allocated
//     after the call.
//  2. Every read checks that it got the document that it asked for, every scan
//     touches the first and the last byte of each document.
//  3. The operations of a worker depend on the seed, its number and the number
//     of documents only; in an open loop, who does the next one depends on who
//     is free. Inserts take the indexes that follow the existing documents, each
//     once.
//  4. Operations of an open loop begin in the order in which they are due, none
//     before it is due, each once. Those that are due when the time is over are
//     still done, for up to a tenth of it.
//
// Latencies are kept from a nanosecond to a minute with three digits, in a
// quarter of a megabyte for each counter, kind of operation and kind of duration.
// Workers share counters; a collector exchanges these once a second, without a lock.
// Memory and written bytes are known on Linux only, processor time on Unix
// systems.
package measure
