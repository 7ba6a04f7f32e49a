// Package replicated is a gateway.Store of a cluster of replicas, so that clients of Azure Cosmos DB work with the
// cluster: docs/replicas.md says what goes and what does not.
//
//	gateway.Handler ─► Store ─► client.Client ─► nodes
//	                     ├─ items.go      items of a container
//	                     ├─ tx.go         transactions: read, and commit if nothing has changed
//	                     ├─ find.go       queries, of one group after the other
//	                     ├─ ranges.go     physical partitions as clients see them
//	                     ├─ session.go    consistency levels and session tokens
//	                     └─ catalogue.go  the list of databases and containers, which one gateway changes
//
// Invariants:
//
//  1. A write that was answered with success is durable in a quorum of its group. One whose outcome is not known is answered 408.
//  2. One gateway changes the catalogue. What an earlier one still tries comes to nothing.
//  3. The id of a physical partition stands for the same keys for ever.
//  4. What the cluster does not do is answered 501, and changes nothing.
package replicated
