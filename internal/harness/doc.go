// Package harness is what the commands share that measure stores, pbench and bench/lab: the
// frame of a command line (Environment), flags that say what to open and to load, a store
// as measurements see it (Store, Container) and the engine behind it, loading, documents
// that are generated or found in a store, and how figures and progress are written.
//
// Store and Container are interfaces so that the commands can be tested without the engine.
// An Environment serves one command line at a time. Only commands and their tests call the
// package.
package harness
