package engine

import (
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// env is what the trees of a store have in common, and all that they know of the
// store. It is set before the first tree is made and not copied; its functions may be
// called by any goroutine.
type env struct {
	fs      vfs.FS
	storeID manifest.ID
	seed    item.Seed // of hashes in memtables and new files; unknown to those who choose keys
	pool    *arena.Pool
	// epoch guards versions: the memtables and files of a version are released only after
	// every reader that could have loaded the version has left.
	epoch       *epoch.Domain
	pins        pins.Set
	memIndexes  memIndexes
	nextFile    atomic.Uint64
	frozenBytes atomic.Int64 // of memtables that wait for their flush
	heldBack    atomic.Bool  // a reader holds dead versions back: merges look again later
	replaying   bool         // the log is being read: older versions may still come

	reader         segment.ReaderOptions // with which files are opened
	fileBytes      int64                 // size from which an output begins another file
	indexBytes     int64                 // memory that making the index of a file may take
	compactionRate int64                 // bytes a second that each compaction may write; 0: no limit
	clock          func() time.Time

	// uncertain takes an error of a manifest, fails the store if the error leaves open what
	// is durable, and returns the error.
	uncertain func(error) error
	// failed says whether the store has failed: then the outcome of a manifest may be
	// unknown, and no file is removed.
	failed func() bool
	// background reports an error that no caller will see.
	background func(what string, err error)
	// remove calls remove for files that no manifest names any more. bytes is their size if
	// known, else 0. It tries again later while remove returns errHeld.
	remove func(what string, bytes int64, remove func() error)
	// retire calls release when no reader can hold what release releases any more.
	retire func(release func())
	// unpinned is called after a reader has released files.
	unpinned func()
	// crowded says that flushes need the processors which a compaction would take.
	crowded func() bool
	// flushSoon asks for a flush, since memory is short.
	flushSoon func()
}

// family is what the trees of a container have in common.
type family struct {
	levels      int // of partition keys
	compression segment.Compression
	dict        dictionary
	indexing    atomic.Pointer[index.Compiled] // nil: nothing is indexed
	// changeFloor returns the sequence above which all versions are kept; maxSequence: no
	// changes are kept.
	changeFloor func() uint64
}
