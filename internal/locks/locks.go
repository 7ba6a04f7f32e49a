// Package locks has the order of the locks of the store: each type is the kind of one
// lock, for lockorder.Mutex and ctxlock.Mutex. A lock of a lower rank is taken before one
// of a higher rank; of locks with equal ranks a goroutine holds one. The package document
// of engine says what each lock guards. It is one list for all packages of the engine,
// because they take each other's locks in turn.
//
// Tests that run with the race detector panic where a lock is taken out of order, or
// where a file is written under a lock that forbids it (NoIO).
package locks

import (
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/manifest"
)

// The kinds of locks, in the order in which they are taken.
type (
	Copy          struct{} // CopyJob.calls
	Checkpoints   struct{} // DB.checkpoints
	Compacting    struct{} // partition.compacting
	Flushing      struct{} // partition.flushing
	Reshape       struct{} // Container.reshapeMu
	Creating      struct{} // DB.creating
	Install       struct{} // partition.install
	Reindexing    struct{} // Container.reindexing
	StoreManifest struct{} // DB.storeManifest
	Counting      struct{} // of keysizes.Sizes, for each key
	Commit        struct{} // partition.commit
	Pins          struct{} // DB.pins
	Version       struct{} // partition.versionMu

	// No lock of this list is taken under those that follow.

	Marks     struct{} // DB.marks
	KeySizes  struct{} // of keysizes.Sizes
	Obsolete  struct{} // partition.obsolete
	Building  struct{} // partition.building
	Removals  struct{} // Reclaimer.removals
	Reclaimer struct{} // Reclaimer.mu
	Job       struct{} // job.mu
	Pressure  struct{} // of pressure.Gate
	Events    struct{} // of eventqueue.Queue
)

type order = lockorder.Order

// Order implements lockorder.Kind, as do those below.
func (Copy) Order() order          { return order{Name: "CopyJob.calls", Rank: 10} }
func (Checkpoints) Order() order   { return order{Name: "DB.checkpoints", Rank: 20} }
func (Compacting) Order() order    { return order{Name: "partition.compacting", Rank: 30, Many: true} }
func (Flushing) Order() order      { return order{Name: "partition.flushing", Rank: 40, Many: true} }
func (Reshape) Order() order       { return order{Name: "Container.reshapeMu", Rank: 50, Many: true} }
func (Creating) Order() order      { return order{Name: "DB.creating", Rank: 60} }
func (Install) Order() order       { return order{Name: "partition.install", Rank: 70, Many: true} }
func (Reindexing) Order() order    { return order{Name: "Container.reindexing", Rank: 80} }
func (StoreManifest) Order() order { return order{Name: "DB.storeManifest", Rank: 90} }
func (Counting) Order() order      { return order{Name: "keysizes.counting", Rank: 105} }

// Order lets the writer that fills the buffer of the log write it.
func (Commit) Order() order {
	return order{Name: "partition.commit", Rank: 110, Many: true, NoIO: true, But: manifest.LogDir}
}

func (Pins) Order() order    { return order{Name: "DB.pins", Rank: 115, NoIO: true} }
func (Version) Order() order { return order{Name: "partition.versionMu", Rank: 120, NoIO: true} }

func (Marks) Order() order     { return order{Name: "DB.marks", Rank: 200, NoIO: true} }
func (KeySizes) Order() order  { return order{Name: "keysizes.mu", Rank: 200, NoIO: true} }
func (Obsolete) Order() order  { return order{Name: "partition.obsolete", Rank: 200, NoIO: true} }
func (Building) Order() order  { return order{Name: "partition.building", Rank: 200, NoIO: true} }
func (Removals) Order() order  { return order{Name: "Reclaimer.removals", Rank: 200, NoIO: true} }
func (Reclaimer) Order() order { return order{Name: "Reclaimer.mu", Rank: 200, NoIO: true} }
func (Job) Order() order       { return order{Name: "job.mu", Rank: 200, NoIO: true} }
func (Pressure) Order() order  { return order{Name: "pressure.Gate", Rank: 200, NoIO: true} }
func (Events) Order() order    { return order{Name: "eventqueue.Queue", Rank: 200, NoIO: true} }
