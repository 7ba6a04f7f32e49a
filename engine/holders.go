package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/census"
	"github.com/cleavestore/cleave/internal/lsm"
)

// Holder says why overwritten or deleted versions, or replaced files, are still on
// disk: readers of one kind need them, or a container keeps them for a time.
type Holder struct {
	// What is a kind of reader: snapshot, scan, query, transaction, copy, export or
	// backup (which holds files, and no versions; a checkpoint counts as one). For a
	// container it is change retention or expiry grace.
	What      string `json:"what"`
	Container string `json:"container,omitempty"` // that keeps versions for a time; empty: readers do
	Count     int    `json:"count"`               // of the readers
	// Since is when the oldest of the readers began; zero for a container.
	Since time.Time `json:"since,omitzero"`
	// Seq is a sequence: versions that were overwritten after it stay. 0: what stays
	// does not depend on a sequence.
	Seq uint64 `json:"seq"`
}

// String returns a sentence.
func (h Holder) String() string {
	switch {
	case h.Container != "":
		return fmt.Sprintf("the %s of container %s holds versions", h.What, h.Container)
	case h.Seq == 0:
		return fmt.Sprintf("%s (%d) holds files since %s", h.What, h.Count, h.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s (%d) holds versions from sequence %d on since %s", h.What, h.Count, h.Seq, h.Since.Format(time.RFC3339))
}

// holders returns what holds space: readers, the oldest first, then containers that
// keep versions which would otherwise be dead.
func (db *DB) holders() []Holder {
	var all []Holder
	for _, h := range db.env.Pins.Held() {
		all = append(all, Holder{What: h.By.String(), Count: h.Count, Since: h.Since, Seq: h.Seq})
	}
	for info := range db.Containers() {
		c, err := db.Container(info.Name)
		if err != nil {
			continue
		}
		if c.holdsChanges() {
			all = append(all, Holder{What: "change retention", Container: c.name, Seq: c.changeFloor()})
		}
		if c.holdsExpired() {
			all = append(all, Holder{What: "expiry grace", Container: c.name})
		}
	}
	return all
}

// holdsChanges says whether files have versions that stay only for change feeds.
func (c *Container) holdsChanges() bool {
	floor := c.changeFloor()
	return floor != lsm.MaxSequence && c.anyVersion(func(_ *partition, v *lsm.Version) bool { return census.HoldsChanges(v, floor) })
}

// holdsExpired says whether files have items that have expired and may not be
// dropped yet.
func (c *Container) holdsExpired() bool {
	return c.anyVersion(func(p *partition, v *lsm.Version) bool {
		return p.Life.Hides() && census.HoldsExpired(v, p.Past(), p.Purgeable())
	})
}

// anyVersion says whether is returns true for the version of one of the partitions.
func (c *Container) anyVersion(is func(*partition, *lsm.Version) bool) bool {
	guard := c.db.env.Epoch.Enter()
	defer guard.Leave()
	return slices.ContainsFunc(c.routing.Load().parts, func(p *partition) bool { return is(p, p.Version.Load()) })
}
