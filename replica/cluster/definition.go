package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// The definition of a container is the same on all nodes, except for a while the index policy and the default time to live. Indexes belong to
// the files of one store: queries are right whatever is indexed, so nodes may take a change at different
// times, and the entries of a group do not know of it. The default time to live changes at an entry of each group,
// which its leader proposes when its node has heard of the change. All else decides what an entry does, and is fixed.

// NoExpiry as Container.DefaultTTL says that items live for ever that do not say it.
const NoExpiry = -1

// Def returns the container's definition in the store of each node.
func (c *Container) Def() engine.ContainerDef {
	def := engine.ContainerDef{PartitionKey: c.PartitionKey, MinPartitions: c.Partitions, Replicated: true, Index: c.Index, MutableTTL: c.MutableTTL, UniqueKeys: c.UniqueKeys}
	def.DefaultTTL = TTLOf(c.first())
	return def
}

// TTLOf returns a Container.DefaultTTL as the engine has it.
func TTLOf(seconds int64) time.Duration {
	if seconds == NoExpiry {
		return engine.NoExpiry
	}
	return time.Duration(seconds) * time.Second
}

// first returns the default time to live with which the groups of the container begin.
func (c *Container) first() int64 {
	if c.TTLRevision > 0 {
		return c.FirstTTL
	}
	return c.DefaultTTL
}

// Retime changes the default time to live. It says whether that is a change. Error: engine.ErrInvalid.
func (c *Container) Retime(seconds int64) (changed bool, err error) {
	switch {
	case c.DefaultTTL == seconds:
		return false, nil
	case !c.MutableTTL:
		return false, fmt.Errorf("%w: container %q was made without mutable_ttl, so its default_ttl of %d stays", engine.ErrInvalid, c.Name, c.DefaultTTL)
	}
	if err = checkTTL(seconds); err != nil {
		return false, fmt.Errorf("%w: container %q: %w", engine.ErrInvalid, c.Name, err)
	}
	c.FirstTTL = c.first()
	c.Revision++
	c.DefaultTTL, c.TTLRevision = seconds, c.Revision
	return true, nil
}

func checkTTL(seconds int64) error {
	if seconds < NoExpiry || seconds > math.MaxInt32 {
		return fmt.Errorf("default_ttl %d: 0, -1, or 1 to %d seconds", seconds, math.MaxInt32)
	}
	return nil
}

// SecondsOf returns a default time to live of the engine as Container.DefaultTTL has it, in whole seconds.
func SecondsOf(ttl time.Duration) int64 {
	if ttl == engine.NoExpiry {
		return NoExpiry
	}
	return int64(ttl / time.Second)
}

// checkDefinition checks what the store of each node will be given: one that cannot be would hold up every node.
func (c *Container) checkDefinition() error {
	if err := errors.Join(checkTTL(c.DefaultTTL), checkTTL(c.FirstTTL)); err != nil {
		return err
	}
	if err := compiles(c.Index); err != nil {
		return err
	}
	def := c.Def()
	in := definition.Def{
		PartitionKey: def.PartitionKey, MinPartitions: def.MinPartitions, Replicated: true, Index: index.Policy(def.Index), DefaultTTL: def.DefaultTTL, MutableTTL: def.MutableTTL, UniqueKeys: def.UniqueKeys,
	}
	if err := in.Check(c.Name); err != nil {
		return err
	}
	_, err := in.Compile()
	return err
}

// Fixed reports whether two definitions are the same in all that cannot be changed.
func (c *Container) Fixed(o *Container) bool {
	return jsondoc.SamePaths(c.PartitionKey, o.PartitionKey) && c.first() == o.first() && c.MutableTTL == o.MutableTTL &&
		slices.EqualFunc(c.UniqueKeys, o.UniqueKeys, jsondoc.SamePaths)
}

// CheckIndex returns an error for an index policy that cannot be set.
func CheckIndex(p engine.IndexPolicy) error {
	if err := definition.CheckPatterns(index.Policy(p)); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return compiles(p)
}

// compiles returns an error for an index policy that cannot be.
func compiles(p engine.IndexPolicy) error {
	if _, err := index.Compile(index.Policy(p)); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

// SameIndex reports whether two policies index the same.
func SameIndex(a, b engine.IndexPolicy) bool {
	x, y := index.Policy(a), index.Policy(b)
	if x.Empty() || y.Empty() {
		return x.Empty() && y.Empty()
	}
	have, err := index.Compile(x)
	if err != nil {
		return false
	}
	asked, err := index.Compile(y)
	return err == nil && have.Fingerprint() == asked.Fingerprint()
}

// Newest returns the description with a container as some node or the metadata store knows it: With, if the
// description has none of the name and the number, and else with the newer index policy and default time to live of the two.
// Errors: ErrDescription.
func (c *Cluster) Newest(t Container) (*Cluster, error) {
	at := slices.IndexFunc(c.Containers, func(o Container) bool { return o.Name == t.Name })
	if at < 0 || c.number(at) != t.Number {
		return c.With(t)
	}
	if t.Revision <= c.Containers[at].Revision {
		return c, nil
	}
	if err := t.checkDefinition(); err != nil {
		return nil, fmt.Errorf("%w: container %q: %w", ErrDescription, t.Name, err)
	}
	out := *c
	out.Containers = slices.Clone(c.Containers)
	out.Containers[at].Renew(&t)
	return &out, nil
}

// Renew takes the index policy and the default time to live of another definition of the same container, as far as they are newer.
func (c *Container) Renew(t *Container) {
	if t.Revision <= c.Revision {
		return
	}
	c.Index, c.Revision = t.Index, t.Revision
	if c.MutableTTL && t.TTLRevision > c.TTLRevision {
		c.DefaultTTL, c.FirstTTL, c.TTLRevision = t.DefaultTTL, t.FirstTTL, t.TTLRevision
	}
}

// Later returns the containers that are not, or not so, in the description that all nodes had at first: those that were made or
// changed while the cluster ran. Each has its number.
func (c *Cluster) Later() (out []Container) {
	for at, t := range c.Containers {
		if t.Number = c.number(at); t.Number >= FirstNumber || t.Revision > 0 {
			out = append(out, t)
		}
	}
	return out
}
