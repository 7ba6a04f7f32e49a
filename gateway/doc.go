// Package gateway serves a store to clients of Azure Cosmos DB, over the protocol that
// they speak: docs/gateway.md says how to use it and where it differs from the service.
//
//	request ─► handler.go   path, signature (auth.go), body within the budget (internal/budget)
//	              ├─ metadata.go  databases, containers, physical partitions
//	              ├─ offers.go    throughput
//	              ├─ item.go      one item: create, upsert, replace, patch, delete, read
//	              ├─ batch.go     several items: in one transaction, or each for itself
//	              ├─ query.go     pages of results; readmany.go, plan.go
//	              ├─ feed.go      change feeds
//	              ├─ resources.go scripts, users and permissions
//	              └─ procedure.go stored procedures; trigger.go. internal/script runs JavaScript
//	           operation.go what a request is, for Options.Before; containers for who serves them
//	           catalog.go   the durable list of databases and containers
//	           document.go  documents as clients see them, and as the store has them
//	           store.go     what a handler needs of a store, and an engine.DB as one
//
// Invariants:
//
//  1. Nothing of the store is told, and nothing changed, without a valid signature or token.
//  2. A write that was answered with success has the durability of the store.
//  3. Each error has a status, a code and a message that says what is wrong and where. 410
//     answers only requests that name a physical partition.
//  4. The memory for the bodies of requests is bounded, and taken before a body is read. That of answers is not: each is
//     held until its client has read it, or the WriteTimeout of the server is over.
//  5. A script runs in a process of its own, within bounds, and in one transaction: what it does
//     happens as a whole or not at all, and no request sees anything of the script of another.
//  6. Sequences in session tokens never fall, also not through splits and restarts.
//
// A Handler is safe for concurrent use. No process outlives the request that starts it, and one kind of goroutine
// does: it splits the partitions of a container whose throughput needs more of them (internal/provision), also of
// what New finds, and ends when they are split or the store is closed.
// catalog.changing is taken before catalog.mu, and held over I/O; catalog.mu, topology.mu
// and that of the budget are not.
package gateway
