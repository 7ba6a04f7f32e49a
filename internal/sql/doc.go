// Package sql answers queries in the whole grammar of internal/sql/syntax by what
// internal/exec can do, and evaluates the rest on the documents that remain.
//
//	text ── Parse ──► Statement ──┬─ Select    what exec does: filter, order, columns, groups
//	                              └─ Run       what remains: rows of JOINs, columns that are
//	                                           computed, orders and groups of expressions
//
// A filter goes to exec as a whole. Conditions that compare a path with a constant become
// those of internal/query, which indexes answer. Other conditions become query.Computed: exec
// tests them on the documents that the indexes leave, on its goroutines. Only conditions on
// what a JOIN gives are tested here.
//
// A Statement works in one of these ways:
//
//	whole     Select has all; Run adds nothing
//	mapped    each document gives at most one result, in the order of exec
//	joined    each document gives several results, one behind the other, in the order of exec. If
//	          that is the order of the elements of an array (query.Select.ByElement), exec comes
//	          to a document once for each value, and it gives the results of that value
//	collected results are put in order here: those of an ORDER BY of expressions or of members of
//	          what a JOIN gives, of DISTINCT and of groups
//	constant  there is no FROM: one result, without documents
//
// # Continuations
//
// A place in the results is an exec.Position. The Row of a joined statement is the number of
// results of the item that were given, and 0 if all were: the next page begins with the item,
// or behind it, and reads nothing that comes before. A collected one puts the number of the
// row there, and its order key into Order. The order key of results without an item of their own,
// which are those of DISTINCT and groups, is what tells them apart. Where a short continuation has a
// hash of the order key, the place is found by one more pass.
//
// # Invariants
//
//  1. A Statement gives the results that internal/sql/eval defines, whatever indexes there are.
//  2. Pages of a statement have the results that it has in one go, if nothing is written in
//     between.
//  3. Memory is bounded as exec.Limits says: an order by several passes, groups by an error.
//  4. A Statement is immutable. A Run serves one goroutine.
package sql
