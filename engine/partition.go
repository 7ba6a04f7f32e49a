package engine

import (
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/backoff"
	"github.com/cleavestore/cleave/internal/expiry"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/loadstats"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/meter"
	"github.com/cleavestore/cleave/wal"
)

// partition is a physical partition. The package documentation has the order of
// its locks.
type partition struct {
	lsm.Tree
	db *DB
	c  *Container

	// meter limits the throughput; nil: it is unlimited.
	meter   atomic.Pointer[meter.Meter]
	carried atomic.Pointer[carried]
	// heirs are the partitions that replaced it; nil while it is in use.
	heirs        atomic.Pointer[heirs]
	refusedAt    atomic.Int64               // its size in bytes when a split was refused
	queued       atomic.Pointer[ReshapeJob] // the automatic split under way; nil: none
	cutting      backoff.Retry              // after automatic splits that failed
	parents      []PartitionID
	installEpoch uint64 // generation of its content: InstallPartition raises it

	// mu is the commit lock: it orders the writes of the partition. No file
	// is touched under it except by the log when its buffer is full.
	mu struct {
		lockorder.Mutex[locks.Commit]
		last     wal.Position     // end of the newest record of the partition
		synced   wal.Position     // end of its newest record that asked for a sync
		lazy     wal.Position     // end of its newest record that asked for none
		lastSeq  uint64           // of the newest write applied to the memtable
		reserved int64            // memory of the active memtable when it last grew
		applied  manifest.Applied // newest entry of the replicated log
		left     parentProgress   // what the parents had reached; replicated containers only
		mixed    bool             // replay put records of inherited streams into the active memtable
		// allSynced says that every write waits for a sync, whatever it asks for.
		allSynced bool
	}

	leftovers []string // names in its directory that a crash left, to be removed
	sizes     keysizes.Sizes
	loadStats loadstats.Partition // guarded by the lock of c.loadStats

	expiry expiry.Pass // the last one; only the expirer uses it
}

// tableBytes is the memory that versions take in all memtables.
func (db *DB) tableBytes() (n int64) {
	for _, p := range db.partitions() {
		n += p.Version.Load().TableBytes()
	}
	return n
}

// publish makes everything up to seq visible, also in the partitions that replaced
// this one. After an error the store has failed, and there it stays invisible.
func (p *partition) publish(seq uint64) error {
	p.raise(seq)
	if h := p.heirs.Load(); h != nil {
		return h.publish(p.db, seq)
	}
	return nil
}

func (p *partition) raise(seq uint64) {
	for {
		old := p.Visible.Load()
		if old >= seq {
			return
		}
		if p.Visible.CompareAndSwap(old, seq) {
			p.c.followers.Signal()
			return
		}
	}
}

// freezeLocked gives the partition a new memtable if the present one holds
// anything. The commit lock is held.
func (p *partition) freezeLocked() bool {
	active := p.Version.Load().Active
	if active.Versions() == 0 || p.Dropped.Load() {
		return false
	}
	next := memtable.New(p.db.env.Pool, p.Span, int(active.Items()), p.db.env.Seed)
	frozen := lsm.Frozen{Table: active, Last: p.mu.last, Synced: p.mu.synced, LastSeq: p.mu.lastSeq, Applied: p.mu.applied, Mixed: p.mu.mixed}
	if !p.db.env.Replaying {
		p.mu.mixed = false
	}
	p.Swap(func(v lsm.Version) lsm.Version {
		v.Active = next
		v.Frozen = append([]lsm.Frozen{frozen}, v.Frozen...)
		return v
	})
	p.db.env.FrozenBytes.Add(active.Reserved())
	return true
}
