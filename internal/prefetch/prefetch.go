// Package prefetch tells the processor of memory that will be read soon, so that it is
// fetched while other work goes on.
//
//	Lines(b)   asks for the cache lines of b, and does not wait for them
//	At(p, n)   the same for n lines from p on, where the length is not known yet
//
// A prefetch is a hint: one of memory that is not mapped, or that has no page yet, does
// nothing and is no fault. It pays where the address is known some 100 ns before the use and
// the processor cannot guess it, as at the head of the next record of a file whose records
// are longer than what its own prefetcher looks ahead. On other processors than amd64 and
// arm64 Lines does nothing.
package prefetch
