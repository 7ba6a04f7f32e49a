// Package exec runs queries and scans over the versions of physical partitions.
//
//	Begin ─► Execution ─► one unit for each physical partition, or logical partition, of the scope
//	                        │
//	                        ├─ candidates   the versions that indexes name: plan.go says which
//	                        ├─ cursors      all versions, where indexes do not help
//	                        └─ scanner      a batch at a time, inside a call; results outside of it
//	                             │
//	            rows by key, the first in an order, or groups
//
// Package engine is its only caller. It checks what users give, compiles scopes to keys,
// and makes items of rows. To this package a container is a Host, a physical partition a
// Part and a snapshot a Snapshot; it knows nothing else of the store. They are asked once
// a call, unit or batch, never for each item.
//
// # Invariants
//
//  1. Each physical partition is seen at one sequence, which is pinned from before the
//     first row until after the last, or which a snapshot gives.
//  2. Partitions may be replaced while a query runs. A scan then goes on in those that
//     replaced them, at the same sequence, where it stopped; no item is shown twice or
//     left out. A partition that was installed since ends it with an error.
//  3. What indexes name is a superset of the results, unless the plan is exact. Dead
//     versions are taken out first. So a query gives the same results with every index
//     policy.
//  4. Rows come in one order: that of the query, and for equal values that of keys. A
//     Position names a place in that order by values of documents alone, so that a
//     continuation survives splits and restarts.
//  5. Memory is bounded: batches by their bytes, an order by passes, groups by an error.
//     See Limits.
//
// # Concurrency
//
// An Execution serves one goroutine, and works on units with several. Scans and tours
// serve one. While yield runs, a scan holds nothing but its pin, and a tour the files that
// it lists.
package exec
