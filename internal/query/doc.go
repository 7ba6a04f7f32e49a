// Package query says what a query means: filters over JSON documents, the
// order of values, projections and aggregates. It knows nothing of stores.
//
// # Values
//
// A path leads to a value: null, a boolean, number, string, array or object.
// Where it leads nowhere the value is undefined, which is not null. Numbers are
// IEEE 754 doubles; one that is written beyond them is infinite, minus zero is
// zero. Strings are compared by their UTF-8 bytes, which is by code points.
//
// # Logic
//
// A predicate is true, false or undefined, and a document matches if its filter
// is true:
//
//	=, !=, <, <=, >, >=, range    undefined unless both sides are of one type
//	in                            true if one is equal, undefined if one is of another type, else false
//	prefix, contains              undefined unless the value is a string
//	array contains                undefined unless the value is an array
//	exists, tests of the type     true or false
//	not                           of undefined is undefined
//	and                           false if one is false, else undefined if one is
//	or                            true if one is true, else undefined if one is
//
// A path that goes through the elements of arrays can lead to several values.
// A predicate on it is true if it is for one of them, else false if it is for
// one of them, else undefined.
//
// # Order
//
// Undefined, null, false, true, numbers, strings, arrays, objects. All arrays
// are alike, so are all objects; ties are ordered by EPK, partition key and id,
// ascending.
//
// Invariants:
//
//  1. A document is looked at once, whatever the filter, and no further than
//     its last value that matters.
//  2. Matching allocates nothing once scratch has grown.
//  3. Order keys compare as bytes exactly as the values do.
package query
