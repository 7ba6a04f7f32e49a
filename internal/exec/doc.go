// Package exec runs queries and scans over the versions of physical partitions.
//
//	Begin ─► Execution ─► one unit for each physical partition, or logical partition, of the scope
//	                        │
//	                        ├─ candidates   the versions that indexes name: package termset says which
//	                        ├─ cursors      all versions, where indexes do not help
//	                        └─ scanner      a batch at a time, inside a call; results outside of it
//	                             │
//	            rows by key, the first in an order, or groups
//
// Package engine is its only caller. The engine checks the arguments of its users, compiles
// scopes to keys, and turns rows into items. To this package a container is a Host, a physical
// partition a Part and a snapshot a Snapshot; it knows nothing else of the store. Methods of
// these three are called once a call, unit or batch, never for each item.
//
// # Invariants
//
//  1. Each physical partition is seen at one sequence. The sequence is that of a snapshot, or
//     it is pinned from before the first row until after the last.
//  2. Partitions may be replaced while a query runs. A scan then goes on in those that
//     replaced them, at the same sequence, where it stopped; no item is shown twice or
//     left out. If a partition was installed there since, the scan ends with an error.
//  3. The candidates are a superset of the results, and equal to them if the plan is exact.
//     Dead versions are taken out first. So a query gives the same results with every index
//     policy.
//  4. Rows come in the order of the query, and rows with equal values in the order of keys. A
//     Position names a place in that order by values of documents alone, so that a
//     continuation survives splits and restarts.
//  5. A query with a limit does not look at all terms of a wide condition, unless reading
//     documents has cost as much: see wide.go.
//  6. Memory is bounded: that of batches by their bytes, that of an order by passes, that of
//     groups by an error. See Limits.
//
// # Concurrency
//
// An Execution is for one goroutine, and starts several to work on units. A scan or a tour is
// for one goroutine. While the loop body runs, a scan holds only its pin, and a tour only the
// files that it lists.
package exec
