package feed

import (
	"context"

	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// Store is what a feed needs of the container whose changes it shows, and of the
// container's store. Its methods may be called at any time.
type Store interface {
	// Enter begins a call. The caller leaves the guard when the call ends. Until then
	// the store stays open.
	Enter(ctx context.Context) (epoch.Guard, error)
	// Routing returns the present partitions of the container.
	Routing() Routing
	// Sync waits until the log is durable up to a position.
	Sync(to wal.Position) error
	// Ended returns why there will be no more changes, nil if there may be some.
	Ended() error
	// Closing is closed when the store closes. From then on Ended returns an error.
	Closing() <-chan struct{}
	// SequenceAt returns the newest sequence known to have been given out by a time, in
	// milliseconds.
	SequenceAt(millis int64) uint64
	// Wait waits until a partition that has refused a read with err admits the next one. It
	// returns err if err is no such refusal, and an error when the store closes.
	Wait(ctx context.Context, err error) error
	// ReadError reports an error that a read of memtables or files met, and returns what
	// the user of the feed gets.
	ReadError(err error) error
}

// Routing is an immutable list of the partitions of a container.
type Routing interface {
	// Table says which partition holds which keys.
	Table() *partmap.Table
	// Partition returns a partition by its index in the table.
	Partition(i int) Partition
}

// Partition is a physical partition: its tree, and what a feed needs of it besides.
type Partition interface {
	// Tree returns its memtables and files.
	Tree() *lsm.Tree
	// Durable returns a sequence: the visible writes up to it survive a crash. Once the
	// log is synced up to lazy, all writes that are visible now survive one.
	Durable() (seq uint64, lazy wal.Position)
	// Past says which of its items have expired.
	Past() lifetime.Past
	// MarksExpiry says that a tombstone of an expired item has lifetime.Never as its expiry.
	MarksExpiry() bool
	// Here returns why the store does not have the items of the partition, nil if it does.
	Here() error
	// Admit refuses a read while the throughput of the partition is consumed.
	Admit() error
	// Charge charges for what was read, in request units.
	Charge(units float64)
}
