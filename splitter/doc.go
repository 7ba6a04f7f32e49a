// Package splitter decides when physical partitions are split, and where they are cut. It only
// plans, and knows nothing of files or goroutines; the engine carries the plans out.
//
// A reshape gives the range of one or two neighbouring partitions, the parents,
// to one or two new ones, the children:
//
//	split   [a ............ c)          ->  [a .... b) [b .... c)
//	merge   [a .... b) [b .... c)       ->  [a ............ c)
//	move    [a .... b) [b .... c)       ->  [a .. x) [x ...... c)
//
// Invariants:
//
//  1. A cut is an EPK, so it never divides a logical partition, and keys with
//     equal hashes stay together. Keys of several levels may be cut inside a
//     first level.
//  2. The children of a plan tile the range of its parents.
//  3. The number of places that Cut reads of a Source is logarithmic in the length of the
//     Source.
package splitter
