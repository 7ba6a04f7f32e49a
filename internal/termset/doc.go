// Package termset answers a filter by the terms of indexes. A Planner turns the filter into a
// Plan, which does not depend on a file: sets of terms, joined as the conditions are. Sets evaluates
// a plan on one index after the other, as a set of ordinals.
//
//	Filter -> Planner, by a policy -> Plan -> Sets, in each index -> index.Set
//
// # Invariants
//
//  1. A plan gives every document for which its filter is true; if it is exact, no other.
//  2. A plan is not changed once it was made, and may be evaluated by several goroutines.
//  3. What evaluates a plan asks its context between terms.
package termset
