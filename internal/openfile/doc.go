// Package openfile reads immutable files, of which there may be more than the system
// lets a process hold open and mapped.
//
// A File is opened when it is read and mapped when it is read through its mapping; a
// Budget that many files share decides which of them give up a descriptor or a mapping.
// Residency remembers which pages of a file are in memory, so that a goroutine waits for
// the device in a read, which stops no other, and not in a page fault. ColdReads bounds
// and counts such reads.
//
// Invariants:
//
//  1. A file is the one that was opened first, or a copy that Options.Same accepts,
//     whatever becomes of its names.
//  2. No mapping is unmapped while a goroutine uses it (Budget).
//  3. A memory fault in a mapping becomes an error (Guard).
//
// The package knows nothing of what the files hold. Package segment reads its files
// through it; the engine makes the Budget and the ColdReads. Everything is safe for
// concurrent use.
package openfile
