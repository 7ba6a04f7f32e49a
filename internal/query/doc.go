// Package query defines the meaning of a query: filters over JSON documents, the
// order of values, projections and aggregates. It knows nothing of stores.
//
// # Values
//
// A path leads to a value: null, a boolean, number, string, array or object.
// If the document has none there, the value is undefined, which is not null. Numbers are
// IEEE 754 doubles; a number beyond their range is infinite, minus zero is
// zero. Strings are compared by their UTF-8 bytes, which is the order of code points.
//
// # Logic
//
// A predicate is true, false or undefined. A document matches if its filter
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
// A predicate on such a path is true if it is true for one of the values, else false if it is
// false for one of them, else undefined.
//
// # Order
//
// Undefined, null, false, true, numbers, strings, arrays, objects. All arrays
// are equal in this order, and so are all objects. Equal values are ordered by EPK, partition
// key and id, ascending.
//
// Invariants:
//
//  1. A document is read once, whatever the filter, and no further than
//     the last value that the query needs.
//  2. Matching allocates nothing once scratch has grown.
//  3. Order keys compare as bytes exactly as the values do.
package query
