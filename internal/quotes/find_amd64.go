package quotes

import "golang.org/x/sys/cpu"

// Available says that the processor has the instructions that a Finder needs.
var Available = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

// find looks at the bytes of doc from the offset from to the offset to: from is a multiple
// of 64, and so is to, unless it is the end of doc, which is at least MinLen. It adds the
// offsets of quotes that no backslash escapes to f.Pairs and counts them in f.n, puts the
// offsets of escapes into f.escapes and their number into f.escaped. If f.n is odd, from
// is inside of a string. It returns false if the bytes are not UTF-8, or if there is a
// control character in a string. A character that is cut off at to is a flaw of the next
// call.
//
//go:noescape
func find(f *Finder, doc *byte, from, to int) bool
