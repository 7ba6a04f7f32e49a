package engine

import (
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/manifest"
)

// The locks of the engine, in the order in which they may be taken: the package
// documentation has the table. Tests that run with the race detector panic where
// one is taken out of order, or a file is written under one that forbids it.
type (
	copyLock          struct{} // Copy.mu
	checkpointLock    struct{} // DB.checkpoints
	compactingTurn    struct{} // partition.compacting
	flushingTurn      struct{} // partition.flushing
	reshapeLock       struct{} // Container.reshapeMu
	creatingLock      struct{} // DB.creating
	installLock       struct{} // partition.install
	reindexingLock    struct{} // Container.reindexing
	storeManifestLock struct{} // DB.storeManifest
	pinsLock          struct{} // DB.pins
	countingTurn      struct{} // keySize.counting
	commitLock        struct{} // partition.mu
	versionLock       struct{} // partition.versionMu
	marksLock         struct{} // DB.marks
	keySizesLock      struct{} // keySizes.mu
	obsoleteLock      struct{} // partition.obsolete
	buildingLock      struct{} // partition.building
	leftoversLock     struct{} // DB.leftovers
	jobLock           struct{} // Job.mu
	workersLock       struct{} // workers.mu
	eventsLock        struct{} // eventQueue.mu
)

func (copyLock) Order() lockorder.Order { return lockorder.Order{Name: "Copy.mu", Rank: 10} }
func (checkpointLock) Order() lockorder.Order {
	return lockorder.Order{Name: "DB.checkpoints", Rank: 20}
}
func (compactingTurn) Order() lockorder.Order {
	return lockorder.Order{Name: "partition.compacting", Rank: 30, Many: true}
}
func (flushingTurn) Order() lockorder.Order {
	return lockorder.Order{Name: "partition.flushing", Rank: 40, Many: true}
}
func (reshapeLock) Order() lockorder.Order {
	return lockorder.Order{Name: "Container.reshapeMu", Rank: 50, Many: true}
}
func (creatingLock) Order() lockorder.Order { return lockorder.Order{Name: "DB.creating", Rank: 60} }
func (installLock) Order() lockorder.Order {
	return lockorder.Order{Name: "partition.install", Rank: 70, Many: true}
}
func (reindexingLock) Order() lockorder.Order {
	return lockorder.Order{Name: "Container.reindexing", Rank: 80}
}
func (storeManifestLock) Order() lockorder.Order {
	return lockorder.Order{Name: "DB.storeManifest", Rank: 90}
}
func (pinsLock) Order() lockorder.Order {
	return lockorder.Order{Name: "DB.pins", Rank: 100, NoIO: true}
}

func (countingTurn) Order() lockorder.Order {
	return lockorder.Order{Name: "keySize.counting", Rank: 105}
}

// A full buffer of the log is written by the writer that fills it.
func (commitLock) Order() lockorder.Order {
	return lockorder.Order{Name: "partition.mu", Rank: 110, Many: true, NoIO: true, But: manifest.LogDir}
}
func (versionLock) Order() lockorder.Order {
	return lockorder.Order{Name: "partition.versionMu", Rank: 120, NoIO: true}
}
func (marksLock) Order() lockorder.Order {
	return lockorder.Order{Name: "DB.marks", Rank: 200, NoIO: true}
}
func (keySizesLock) Order() lockorder.Order {
	return lockorder.Order{Name: "keySizes.mu", Rank: 200, NoIO: true}
}
func (obsoleteLock) Order() lockorder.Order {
	return lockorder.Order{Name: "partition.obsolete", Rank: 200, NoIO: true}
}
func (buildingLock) Order() lockorder.Order {
	return lockorder.Order{Name: "partition.building", Rank: 200, NoIO: true}
}
func (leftoversLock) Order() lockorder.Order {
	return lockorder.Order{Name: "DB.leftovers", Rank: 200, NoIO: true}
}
func (jobLock) Order() lockorder.Order {
	return lockorder.Order{Name: "Job.mu", Rank: 200, NoIO: true}
}
func (workersLock) Order() lockorder.Order {
	return lockorder.Order{Name: "workers.mu", Rank: 200, NoIO: true}
}
func (eventsLock) Order() lockorder.Order {
	return lockorder.Order{Name: "eventQueue.mu", Rank: 200, NoIO: true}
}
