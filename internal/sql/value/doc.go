// Package value has the values that expressions of queries compute with: undefined, null,
// booleans, numbers, strings, arrays and objects.
//
// # Invariants
//
//  1. A value is immutable. One of an array or object that was taken from a document refers
//     to the bytes of the document, and is valid as long as they are; Keep makes it independent.
//  2. An array or object of a document is read when it is asked for. What a query does not
//     look at is not decoded.
//  3. Numbers are IEEE 754 doubles. An integer of a document that no double holds keeps its
//     digits: it is compared as a double, and written as it was.
//  4. No array or object that an expression makes holds undefined.
//  5. Two values are Equal if and only if AppendKey gives the same bytes for them. An array or object
//     that is compared again and again keeps these bytes.
package value
