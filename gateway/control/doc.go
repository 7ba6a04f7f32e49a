// Package control serves a store to clients, as package gateway does, so that a test or a person can
// direct it meanwhile: split, merge and move physical partitions, plant faults, turn the clock, and
// take the whole store back to a checkpoint. docs/gateway.md has the endpoints.
//
//	clients ─► Host.ServeHTTP ─► gate ─► gateway.Handler ─► engine.DB
//	                                        │ Before: faults.go
//	tests ──► Host.Control  ─► server.go ─► jobs.go, faults.go, clock.go
//	                             └─► return: the gate is shut, the store replaced (place.go)
//
// Client speaks to Host.Control from Go.
//
// Invariants:
//
//  1. While the store is replaced no request is under way; those that come wait, and are carried
//     out on the store that took its place. None is carried out on both.
//  2. A return that fails leaves the store that there was.
//  3. After a crash the directory holds the store before a return, or that of the checkpoint, as a
//     whole: see disk.
//  4. Which requests a fault meets follows from its seed and their number, and from nothing else.
//  5. Time only goes forward.
//  6. Nothing is changed by a request that a page elsewhere makes, or that comes by another name
//     than those that are served.
//
// host.changing is taken before the gate is shut, and before jobs.mu and faults.mu.
package control
