// Package quotes finds the strings of a JSON text by vector instructions, 64 bytes at a
// time: AVX2 on amd64, NEON on arm64.
//
//	f.Start(doc)
//	f.Pairs   offsets of an opening and a closing quote, of the next pair, …, None
//	f.Next    the pairs behind those
//
// A quote that a backslash escapes belongs to its string. On the way a Finder checks what
// vector instructions check at little cost: that the text is UTF-8, that no string has
// control characters, and that escapes are well formed. It knows nothing else of JSON: what
// stands between strings is the caller's to check, byte by byte. A caller that does so
// meets each quote of Pairs in turn, whatever the text is. One that meets a backslash
// outside of a string refuses the text, for Pairs may be wrong from there on.
//
// # Invariants
//
//  1. Nothing is read outside of the text, and nothing written outside of the Finder.
//  2. A Finder has the same size for every text, and takes time linear in its length.
//  3. The assembly finds what the byte by byte reference of the tests finds, in any bytes.
//
// The check of UTF-8 is the one by Keiser and Lemire, "Validating UTF-8 In Less Than One
// Instruction Per Byte" (2021): each error shows in the high and low half of one byte and the
// high half of the next, or in a continuation that is missing or too many.
//
// A Finder serves one goroutine at a time. Only package jsondoc uses it.
package quotes
