// Package harness is the common part of the commands that measure stores, pbench and
// bench/lab: the frame of a command line (Environment), flags that choose what to open and to
// load, a store and a container as a measurement sees them (Store, Container), the engine
// behind them, loading, generated documents and those found in a store, and the output of
// figures and progress.
//
// Store and Container are interfaces so that the commands can be tested without the engine.
// An Environment serves one command line at a time. Only commands and their tests call the
// package.
package harness
