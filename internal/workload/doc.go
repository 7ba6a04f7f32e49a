// Package workload makes the input of benchmarks and tests: documents from
// seeded generators or from NDJSON files, and the choice of operations and
// keys.
//
// # Generators
//
// A Generator is a pure function: its Params and an index determine the document,
// its id and its partition key value, on any goroutine and in any order. So a
// worker can read document 4,711 without having seen the load that wrote it.
//
//	food   {"id","foodGroup","manufacturer","upc","description","tags":[…],"price","kcal",
//	        "nutrients":[{…},…],"servings":[{…},…]}   0.8–2 KB, 1.4 KB on average; key /foodGroup
//	ycsb   {"id","tenant","field0"…"field9"}           1.2 KB, ten fields of 100 random characters; key /tenant
//	small  {"id","sensor","at","value","ok"}           72 B; key /sensor
//
// Invariants:
//
//  1. Document i has the same id and key in each version; the rest differs.
//  2. Ids of one generator are distinct for distinct indexes, and their order
//     is unrelated to the order of the indexes.
//  3. A document begins with {"id":"ID", so that a reader can check in a few
//     nanoseconds that it got the document that it asked for.
//  4. Logical partition p of n holds a share of the documents proportional to
//     (p+1)^-skew.
//
// # Keys
//
// A Chooser picks indexes: uniform, zipf (spread over all indexes by a
// permutation, so that the popular documents are not neighbours), latest (zipf
// by age) or hot:F/S (the fraction F of the documents gets the share S of the
// operations).
//
// # NDJSON
//
// Lines reads one JSON document a line, plain or compressed with gzip or zstd. The first bytes
// tell which, not the name. Lines counts lines and does not parse documents.
//
// Limits: a line is at most DefaultLineBytes long unless another limit is given, a zstd
// window at most 128 MiB; memory is bounded by both.
package workload
