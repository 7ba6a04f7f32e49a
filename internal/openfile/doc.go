// Package openfile reads immutable files, of which there may be more than the system
// lets a process hold open and mapped.
//
// A File is opened when it is read, and mapped when it is read through its mapping. Many files
// share a Budget, which decides which of them give up a descriptor or a mapping. Residency
// remembers which pages of a file are in memory. So a goroutine that needs the device waits in
// a read, which lets other goroutines run, and not in a page fault, which does not. ColdReads
// bounds and counts such reads. Where several wait at a time they are made by package uring,
// which holds no processor meanwhile.
//
// Invariants:
//
//  1. All reads of a File are of the file that was opened first, or of a copy that
//     Options.Same accepts, even if its name is removed or replaced.
//  2. No mapping is unmapped while a goroutine uses it (Budget).
//  3. A memory fault in a mapping becomes an error (Guard).
//
// The package knows nothing of the contents of files. Package segment reads its files
// through it; the engine makes the Budget and the ColdReads. Everything is safe for
// concurrent use.
package openfile
