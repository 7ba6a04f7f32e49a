// Package conformance runs clients of Azure Cosmos DB that others have written against
// the gateway: their own tests, and scenarios of ours. docs/gateway.md has the commands
// and what came out.
package conformance
