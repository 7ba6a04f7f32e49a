// Package measure drives a store with a workload and measures it: throughput,
// latencies, processor time and memory. All programs that compare stores use
// it, so that each store is measured by the same code.
//
// In a closed Loop a worker begins an operation when its last one is done. A closed loop finds
// the highest rate of a store. Its latencies do not include the waiting time of callers that
// would have come while the store was busy. An open Loop has a rate: operation i
// is due i/rate after the start, whether or not the operations before it are done. Of each
// operation three durations are measured:
//
//	due     woken  called        returned
//	 |--lag--|-------|---service----|
//	 |-----------response-----------|
//
// The service time is that of the call of the Store. It does not include the making of the
// arguments, which happens before the operation is due (for an insert, when it begins). Time
// that a caller of the store would spend itself is measured apart, as Outcome.Client.
//
// If all workers were busy when an operation was due, its response time counts from the due
// moment. So a stall counts for every operation that it delays. If a worker was
// free and slept, the response time counts from its wake-up, but at the latest from the due
// moment plus the median lag of the clock without a store (Clock.Calibrate). So the usual lag
// of the clock does not count, and a longer lag, which may be the fault of the store, does.
// The lag itself is kept too. If it is above a tenth of the response times the loop is
// Suspect.
//
// Invariants:
//
//  1. Around the calls of the store nothing is allocated and no lock is shared,
//     except when documents are inserted. A Trace allocates after the call.
//  2. Every read checks that it got the document that it asked for, every scan
//     reads the first and the last byte of each document.
//  3. The operations of a worker depend only on the seed, its number and the number
//     of documents. In an open loop, any free worker does the next operation. Inserts take
//     the indexes that follow the existing documents, each once, or again if its write failed.
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
