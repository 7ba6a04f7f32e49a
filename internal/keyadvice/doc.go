// Package keyadvice judges partition keys on a sample of documents. It computes the key and
// the hash of each document as a container would. It reports how many logical
// partitions there are, how large they are, how evenly they fill physical
// partitions, and which limit of the model the container reaches first as it grows. Then it
// recommends a candidate.
//
//	sample --Survey--> proposals          (if no candidates are given)
//	sample --Study---> Report --Judge--> verdicts, recommendation
//
// # What is counted, and in how much memory
//
// Documents, bytes, undefined and null values and the contents of physical
// partitions are exact for every sample. They need a few hundred bytes a
// candidate. Logical partitions are counted one by one, in about 150 bytes each,
// up to MaxKeys of them. For a candidate with more of them, figures are estimates:
//
//   - Only keys whose hash ends in z zero bits are still counted, exactly. z is the lowest
//     number for which at most MaxKeys keys are left. Their number times 2^z
//     estimates the number of keys, with a standard error of 1 / sqrt(keys left), at
//     most 0.2 % if MaxKeys is 500,000. The median and other ranks are
//     those of the keys left.
//   - The algorithm Space-Saving follows the largest keys, with heavyKeys
//     counters. Each size is reported with its error, which is at most
//     1/heavyKeys of all bytes. No key that is larger than that is missed.
//
// # Invariants
//
//  1. A document has one reading: package jsondoc validates it and gives the
//     values, package partmap encodes and hashes them.
//  2. A key that a container would refuse (a string over the
//     limit, a value that is no scalar) is counted as refused, and nowhere
//     else.
//  3. The contents of all physical partitions add up to the documents counted.
//  4. Reports depend only on the sample and the options, not on the order of a
//     map.
//
// Sizes are those of the documents' JSON text. Nothing here is safe for
// concurrent use. The package does no input or output.
package keyadvice
