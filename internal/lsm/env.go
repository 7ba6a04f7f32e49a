package lsm

import (
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/reclaim"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// Env is what the trees of a store have in common, and all that they know of the
// store. It is set before the first tree is made and not copied; its functions may be
// called by any goroutine.
type Env struct {
	FS      vfs.FS
	StoreID manifest.ID
	Seed    item.Seed // of hashes in memtables and new files; unknown to those who choose keys
	Pool    *arena.Pool
	// Epoch guards versions: the memtables and files of a version are released only after
	// every reader that could have loaded the version has left.
	Epoch       *epoch.Domain
	Reclaim     *reclaim.Reclaimer // releases what is retired
	Pins        pins.Set
	MemIndexes  MemIndexes
	Kept        index.Kept // what queries have learnt from indexes
	NextFile    atomic.Uint64
	FrozenBytes atomic.Int64 // of memtables that wait for their flush
	room        atomic.Int64 // bytes of runs that are compacted because there is room
	HeldBack    atomic.Bool  // a reader holds dead versions back: compactions look again later
	Replaying   bool         // the log is being read: older versions may still come
	Opening     bool         // files are written without an index: background work makes it

	Reader         segment.ReaderOptions // with which files are opened
	FileBytes      int64                 // size from which an output begins another file
	IndexBytes     int64                 // memory that making the index of a file may take
	CompactionRate *pacing.Rate          // of all compactions together; nil: no limit
	Clock          func() time.Time

	// Uncertain takes an error of a manifest, fails the store if the error leaves open what
	// is durable, and returns the error.
	Uncertain func(error) error
	// Failed says whether the store has failed: then the outcome of a manifest may be
	// unknown, and no file is removed.
	Failed func() bool
	// Background reports an error that no caller will see.
	Background func(what string, err error)
	// Crowded says that flushes need the processors which a compaction would take.
	Crowded func() bool
	// FlushSoon asks for a flush, since memory is short.
	FlushSoon func()
	// CompactSoon asks for a compaction, since scans are many.
	CompactSoon func()
}

// Family is what the trees of a container have in common.
type Family struct {
	Levels      int  // of partition keys
	Version1    bool // they are placed by version 1 of the hash
	Compression segment.Compression
	dict        dictionary
	Indexing    atomic.Pointer[index.Compiled] // nil: nothing is indexed
	// ChangeFloor returns the sequence above which all versions are kept; MaxSequence: no
	// changes are kept.
	ChangeFloor func() uint64
}
