package engine

import (
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/backoff"
	"github.com/cleavestore/cleave/internal/expiry"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/loadstats"
	"github.com/cleavestore/cleave/internal/meter"
	"github.com/cleavestore/cleave/internal/physical"
)

// partition is a physical partition as a container of this package has it.
type partition struct {
	physical.Partition
	db *DB
	c  *Container

	// meter limits the throughput; nil: it is unlimited.
	meter     atomic.Pointer[meter.Meter]
	refusedAt atomic.Int64               // its size in bytes when a split was refused
	queued    atomic.Pointer[ReshapeJob] // the automatic split under way; nil: none
	cutting   backoff.Retry              // after automatic splits that failed

	sizes     keysizes.Sizes
	loadStats loadstats.Partition // guarded by the lock of c.loadStats

	expiry expiry.Pass // the last one; only the expirer uses it

	// Of the calls while the throughput is limited, since the store was opened:
	consumed atomic.Int64 // thousandths of RU
	refused  atomic.Int64 // calls
}

// physicals returns partitions without what this package has of them.
func physicals(parts []*partition) (all []*physical.Partition) {
	for _, p := range parts {
		all = append(all, &p.Partition)
	}
	return all
}
