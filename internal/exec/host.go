package exec

import (
	"context"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/partmap"
)

// Host is the container in which a query or scan runs. Its methods are safe for
// concurrent use.
type Host interface {
	// Enter begins a call. The state of physical partitions that is loaded inside of it
	// may be used until Leave.
	Enter(ctx context.Context) (Call, error)
	// Find returns the physical partition that has a place of the key space.
	Find(at partmap.EPK) Part
	// FindBefore returns the physical partition that has the places just before end.
	FindBefore(end partmap.EPK) Part
	// Parts returns the number of physical partitions.
	Parts() int
	// Levels returns the number of levels of partition keys.
	Levels() int
	// Policy says what is indexed; nil: nothing is.
	Policy() *index.Compiled
	// Pasts fixes the present: what it returns says, for the physical partition that begins
	// at a place, which items have expired.
	Pasts() func(at partmap.EPK) lifetime.Past
	// PinAgain takes a pin once more.
	PinAgain(pins.Pin)
	// Unpin releases a pin.
	Unpin(pins.Pin)
	// Read reads an item of a query, as of a sequence and the number of installations
	// when the sequence was taken. found is false if there is none.
	Read(ctx context.Context, pk partmap.Key, id string, at, installEpoch uint64) (row Row, found bool, err error)
	// Sampled says whether Sample of a partition is to be called for an operation.
	Sampled() bool
	// Elapsed is the clock by which scans are timed.
	Elapsed() time.Duration
	// Scanned is told how long a scan took without its consumer, and how much of that it
	// waited to be admitted. pk is invalid if the scan was not of one logical partition.
	Scanned(pk partmap.Key, took, throttled time.Duration, err error)
	// Wait waits until a partition that has refused a call with err admits the next one.
	// It returns err if err is no such refusal.
	Wait(ctx context.Context, err error) error
	// ReadError reports an error of the storage layers and returns what the caller is
	// told.
	ReadError(err error) error
}

// Call is a call on a container.
type Call struct {
	Store epoch.Guard // keeps the store open
	State epoch.Guard // keeps what is loaded
}

// Leave ends the call.
func (c *Call) Leave() {
	c.State.Leave()
	c.Store.Leave()
}

// Part is a physical partition. Other partitions may replace it at any time. Its
// methods are safe for concurrent use.
type Part interface {
	// Data returns its memtables and files.
	Data() *lsm.Tree
	// Pin pins the newest sequence that readers see, and returns it with the number of
	// installations in the container. If other partitions have replaced this one, ok is
	// false and nothing is pinned: they may have flushed before, without the versions
	// that the sequence needs.
	Pin(by pins.Reader) (at pins.Pin, installEpoch uint64, ok bool)
	// Load returns the present version, inside of a call. If other partitions have
	// replaced this one it returns lsm.ErrMoved; if a partition was installed after installEpoch, or
	// the container was dropped, another error.
	Load(installEpoch uint64) (*lsm.Version, error)
	// Hold is Load with the files of the version kept readable until release is called.
	// Its memtables are not held.
	Hold() (v *lsm.Version, release func(), err error)
	// Past says which of its items have expired.
	Past() lifetime.Past
	// Admit refuses a call while the throughput of the partition, or of the logical partition
	// pk (nil: a call on more than one), is consumed. One that waits then is not counted.
	Admit(pk []byte, waits bool) error
	// Metered says that Charge is to be told what calls cost.
	Metered() bool
	// Charge counts request units that a call has cost.
	Charge(pk []byte, ru float64)
	// Sample counts a sampled operation on a logical partition, and what it cost.
	Sample(pk []byte, ru float64)
}

// Snapshot is a snapshot of a container.
type Snapshot interface {
	// Check returns an error if the snapshot was closed.
	Check() error
	// Cut returns the sequence at which the snapshot sees the physical partition that
	// begins at a place, and the number of installations when it was taken.
	Cut(at partmap.EPK) (seq, installEpoch uint64)
	// Past says which items have expired; the zero Past: as the partition says.
	Past() lifetime.Past
}

// locate returns the partition that find finds, the sequence at which it is read, and
// the number of installations at that time. Without a snapshot that is the newest
// sequence, which locate pins.
func locate(snapshot Snapshot, by pins.Reader, find func() Part) (p Part, at pins.Pin, installEpoch uint64) {
	for ok := false; !ok; {
		p = find()
		if snapshot != nil {
			at.Seq, installEpoch = snapshot.Cut(p.Data().Range.Min)
			break
		}
		at, installEpoch, ok = p.Pin(by)
	}
	return p, at, installEpoch
}

// load loads the present version of a partition. A snapshot is asked behind that: while it is open, no version lacks what it shows.
func load(p Part, s Snapshot, installEpoch uint64) (*lsm.Version, error) {
	v, err := p.Load(installEpoch)
	if err == nil && s != nil {
		err = s.Check()
	}
	return v, err
}

// Row is a result: an item, or with only a body a row of groups. It is valid until
// the function that is given it returns. What it names may be kept, unless a scan borrows.
type Row struct {
	Key      partmap.Key
	ID       string
	Seq      uint64
	Modified int64   // milliseconds
	Expires  int64   // as the version has it: see package lifetime
	Charge   float64 // RU
	Body     []byte
}
