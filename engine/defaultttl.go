package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/manifest"
)

// SetDefaultTTL changes the DefaultTTL of a container that has MutableTTL: for the items that
// have no time to live of their own, those that are there too, and whether those that have
// one expire. 0: nothing expires; NoExpiry: only what has a time to live of its own. When it
// returns nil the change is durable and holds for all calls that begin later. A transaction
// goes on with the default with which it began; a scan, query or snapshot that is under way
// may go by either, but for each item by one of them.
//
// An item comes back that has expired under the old default and not under the new one, if it was not
// removed yet, nor overwritten, nor has another item taken its unique values. What has expired is
// removed Options.ExpiryGrace after a change at the earliest. A feed of latest versions that has
// passed the item does not show that it is back: begin a new one from the start. SetDefaultTTL waits
// for splits, merges and moves of the container until ctx ends.
//
// In a replicated container an entry of the outside log changes the default: see Entry.DefaultTTL.
//
// Errors: ErrReplicated; ErrInvalid without MutableTTL or for a ttl that CreateContainer refuses, ErrCopying
// and ErrCopied while the container is copied or is a copy, and after that; those of a full or
// failed disk, ErrReadOnly, ErrClosed.
func (c *Container) SetDefaultTTL(ctx context.Context, ttl time.Duration) error {
	call, err := c.enterWriting(ctx, fromCaller)
	if err != nil {
		return err
	}
	defer call.Leave()
	if !c.life.Follows() {
		return invalidf("SetDefaultTTL: the items of container %q expire as they were written: it has no MutableTTL", c.name)
	}
	if err = definition.CheckTTL(ttl); err != nil {
		return invalidf("%v", err)
	}
	if err = c.reshapeMu.Lock(ctx); err != nil { // no partition is made meanwhile, and one call is under way
		return err
	}
	defer c.reshapeMu.Unlock()
	after := definition.Millis(ttl)
	if after == c.life.Default() {
		return nil
	}
	parts := c.routing.Load().parts
	for _, p := range parts { // compactions begin again if they have dropped what had expired
		p.Install.Lock()
		defer p.Install.Unlock()
	}
	if err = c.storeDefaultTTL(after); err != nil {
		return err
	}
	for _, p := range parts { // no write is judged by one default and made under another
		p.Commit.Lock()
		defer p.Commit.Unlock()
	}
	c.life.Set(after, c.db.opts.elapsed(), c.db.opts.clock().UnixMilli())
	c.db.work.RewriteSoon()
	return nil
}

// storeDefaultTTL makes a default, in milliseconds, durable.
func (c *Container) storeDefaultTTL(ttl int64) error {
	return c.change(func(m *manifest.Container) error {
		for other := range c.db.containers.Load().Values() {
			if other.copyOf.Load() == c.id {
				return fmt.Errorf("container %q, from container %q: %w", other.name, c.name, ErrCopying)
			}
		}
		m.DefaultTTL = ttl
		return c.refusal(fromCaller) // a copy may have taken its place
	})
}
