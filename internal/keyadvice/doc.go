// Package keyadvice judges partition keys on a sample of documents: it hashes
// each document's key as a container would, and says how many logical
// partitions come of it, how large they are, how evenly they fill physical
// partitions, which limit of the model is met first as the data grows, and
// which candidate to take.
//
//	sample --Survey--> proposals          (where no candidates are given)
//	sample --Study---> Report --Judge--> verdicts, recommendation
//
// # What is counted, and in how much memory
//
// Documents, bytes, undefined and null values and the contents of physical
// partitions are exact, whatever the sample: they need a few hundred bytes a
// candidate. Logical partitions are counted one by one, in about 150 bytes each,
// up to MaxKeys of them. A candidate with more goes over to estimates:
//
//   - The keys whose hash ends in z zero bits are counted on, exactly; z is as
//     large as it takes to keep at most MaxKeys of them. Their number times 2^z
//     estimates the number of keys, with a standard error of 1 / sqrt(kept), at
//     most 0.2 % where MaxKeys is 500,000; the median and other ranks are
//     those of the kept keys.
//   - The largest keys are followed by the algorithm Space-Saving with heavyKeys
//     counters. Each size is known up to an error that is told with it, at most
//     1/heavyKeys of all bytes; no key that is larger than that is missed.
//
// # Invariants
//
//  1. A document has one reading: package jsondoc validates it and gives the
//     values, package partmap encodes and hashes them.
//  2. The keys of a document that a container would refuse (a string over the
//     limit, a value that is no scalar) are counted as refused, and nowhere
//     else.
//  3. The contents of all physical partitions add up to the documents counted.
//  4. Reports depend on the sample and the options only, not on the order of a
//     map.
//
// Sizes are those of the documents' JSON text. Nothing here is safe for
// concurrent use, nor does input or output.
package keyadvice
