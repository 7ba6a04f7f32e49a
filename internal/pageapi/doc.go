// Package pageapi has what pages about a store that a program serves to its own host share: the
// guards against pages elsewhere, and the form of answers and errors. Package console and the
// control port of the gateway use it.
//
// Invariants:
//
//  1. No answer may be kept by a cache, shown in a frame, or read by a page of another origin.
//  2. A request that changes something is carried out only if it comes from the page's own
//     origin or from no browser, with a body of JSON of at most MaxRequest bytes.
//  3. An error is JSON with a kind, which is for programs, and a text.
package pageapi
