// Package eval gives queries their meaning: it compiles trees, and evaluates them on
// documents.
//
//	syntax.Query ── Compile ──► Query ── NewFrame ──► Frame, one for each goroutine
//	                              │
//	                              ├─ Run          all results of one document
//	                              ├─ Rows         the rows of FROM and JOIN for which WHERE is true;
//	                              │                of each row Result and AppendOrder
//	                              └─ Groups       groups of the rows of many documents
//	syntax.Expr ── CompileExpr ──► Expr: one value of a document
//
// # Logic
//
// The value of a condition is true, false or undefined; of all else that stands where a
// condition is expected it is undefined.
//
//	= != < <= > >=         undefined unless both sides are of one type; arrays and objects are
//	                       equal if what they hold is, and have no order
//	BETWEEN                both comparisons joined by AND
//	IN                     true if one is equal, undefined if one comparison is, else false
//	LIKE                   undefined unless both sides are strings
//	NOT                    of undefined is undefined
//	AND                    false if one is false, else undefined if one is
//	OR                     true if one is true, else undefined if one is
//	a ? b : c              b if a is true, else c
//	a ?? b                 a unless that is undefined
//	+ - * / % - +          undefined unless of numbers, which are doubles
//	| & ^ ~ << >> >>>      the same, on the lower 32 bits of integers
//	||                     undefined unless of strings
//	{ } [ ]                leave out members and elements that are undefined
//	(query)                the only result; undefined without one, and an error with several
//	EXISTS(query)          whether there is a result; VALUE of undefined gives none
//
// Aggregates pass over undefined values. COUNT, COUNTIF and SUM of nothing are 0, MAKELIST
// and MAKESET of nothing are empty, the others undefined. SUM and AVG are undefined if a value
// is no number, MIN and MAX if one is an array or object.
//
// # Invariants
//
//  1. A compiled query is immutable and may be shared. A Frame serves one goroutine.
//  2. What an evaluation makes and how many steps it takes is bounded, for each document
//     (function.Env). Beyond the bounds the evaluation ends with an error and no result, and so it does
//     when its context ends.
//  3. Values refer to the bytes of the document until Keep.
//  4. What is the same in several rows is computed for the first of them that needs it, as long as all
//     that is kept so takes no more than function.MaxMade. An array or object in which many rows look for
//     an element or member is opened for them within that bound. What a subquery or a UDF gives, and what is
//     not pure, is computed anew.
package eval
