// Package lsm is the storage of one physical partition: a log-structured merge tree of
// memtables and immutable files.
//
//	         writes                        reads, newest first
//	           │                                 │
//	┌──────────▼─────────┐                       ▼
//	│ active memtable    │   ┌──────────────────────────────────────────┐
//	├────────────────────┤   │ Version: active, frozen, runs            │
//	│ frozen memtables   │   │ immutable, replaced as a whole           │
//	├────────────────────┤   └──────────────────────────────────────────┘
//	│ run    file file … │  ◄── Tree.Flush: the oldest frozen memtable becomes a run
//	│ run    file …      │
//	│ run    file file … │  ◄── Tree.Compact: neighbouring runs become one
//	└────────────────────┘
//
// A Tree belongs to one physical partition. It knows its store by an Env and its
// container by a Family, and nothing else of them. Package engine owns the trees: it
// routes, orders writes, keeps the log, decides when to flush and compact, and tells
// events. Packages exec and feed read Versions.
//
// # Invariants
//
//  1. A run is a sequence of files whose bounds do not overlap. The runs of a Version
//     stand from new to old, and of one key the newer run has the newer versions, except
//     where replay has flushed a version twice.
//  2. A file never changes. A File is a reference to it within bounds: partitions share a
//     file after a split, each within bounds of its own.
//  3. The set of files changes under Tree.Install only: first the manifest names the new
//     files, which are complete, checked and synced with their names; then readers get the
//     Version. A crash in between leaves files that no manifest names.
//  4. A flush needs no older file, and a compaction drops no version that a pinned
//     sequence, the change floor or the expiry grace still needs.
//  5. Damage stays local: a file that cannot be read is set aside with its bounds. Reads
//     that need it fail with the file and offset, and nothing is compacted across it.
//  6. Memory and files of a Version are released after the last reader has left the epoch
//     in which it could have loaded that Version, and the last pin is gone.
//
// # Concurrency
//
// Readers load Tree.Version inside an epoch guard and take no lock. One goroutine at a time
// flushes a tree (Tree.Flushing), one compacts or rewrites (Tree.Compacting). The order of
// the locks is in package engine's documentation.
package lsm
