package replicated

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/protocol"
)

// catalogue is the container with the gateway's catalogue. One gateway changes it: the last one that has written the
// record "owner". Each change is one batch that writes this record anew, on condition that nobody has since; so a
// change of a gateway before comes to nothing, also if it comes late, and the record tells whether a change was carried
// out whose answer was lost.
type catalogue struct {
	*items
	token string     // of this gateway
	mu    sync.Mutex // of the rest; held over I/O
	owner owner
	etag  engine.ETag
}

// owner is the record of the gateway that may change the catalogue.
type owner struct {
	ID      string `json:"id"` // ownerID
	Key     string `json:"key"`
	Kind    string `json:"kind"`
	Token   string `json:"token"`   // of the gateway
	Changes uint64 `json:"changes"` // that it has made
}

const (
	ownerID = "owner"
	// settleTime bounds how long the outcome of a change is looked for.
	settleTime = 30 * time.Second
)

var catalogueKey = engine.StringKey("catalogue")

// takeOver makes this gateway the one that changes the catalogue.
func takeOver(ctx context.Context, it *items) (*catalogue, error) {
	c := &catalogue{items: it, token: rand.Text()}
	c.owner = owner{ID: ownerID, Key: "catalogue", Kind: ownerID, Token: c.token}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	doc, err := json.Marshal(&c.owner)
	if err != nil {
		return nil, err
	}
	metas, err := it.s.c.View(protocol.Strong).Batch(ctx, it.name, catalogueKey, command.Operation{Kind: command.Upsert, Body: doc})
	if err == nil {
		c.etag = metas[0].ETag
		return c, nil
	}
	if errors.Is(err, client.ErrResults) {
		var now owner
		if now, c.etag, err = c.read(ctx); err == nil && now.Token != c.token {
			err = ErrSuperseded
		}
	}
	return c, answer(ctx, err)
}

// read returns the record, and its etag.
func (c *catalogue) read(ctx context.Context) (o owner, etag engine.ETag, err error) {
	it, err := c.s.c.View(protocol.Strong).Read(ctx, c.name, catalogueKey, ownerID)
	if err == nil {
		err = json.Unmarshal(it.Body, &o)
	}
	return o, it.ETag, err
}

// unavailable is the answer of a store that cannot go on, or not yet.
func unavailable(err error) error {
	return &gateway.Fault{Status: http.StatusServiceUnavailable, RetryAfter: retryAfter, Message: err.Error()}
}

// change carries operations on the catalogue out.
func (c *catalogue) change(ctx context.Context, ops ...command.Operation) ([]engine.Meta, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.s.Err(); err != nil {
		return nil, unavailable(err)
	}
	next := c.owner
	next.Changes++
	doc, err := json.Marshal(&next)
	if err != nil {
		return nil, err
	}
	first := command.Operation{Kind: command.Replace, Body: doc, IfMatch: c.etag}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	for {
		within, done := c.s.bound(ctx)
		metas, err := c.s.c.View(protocol.Strong).Batch(within, c.name, catalogueKey, append([]command.Operation{first}, ops...)...)
		done()
		switch {
		case err == nil:
			c.owner, c.etag = next, metas[0].ETag
			return metas[1:], nil
		case errors.Is(err, client.ErrUnknown), errors.Is(err, client.ErrResults), errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, engine.ErrPrecondition), errors.Is(err, engine.ErrNotFound):
			// Is that the record's, or that of an operation?
		default:
			return nil, err // nothing was carried out
		}
		now, etag, failed := c.read(ctx)
		switch {
		case failed != nil:
			return nil, unavailable(c.s.fail(fmt.Errorf("%w: %w", ErrCatalogue, failed)))
		case now.Token != c.token:
			return nil, unavailable(c.s.fail(ErrSuperseded))
		case now.Changes == next.Changes: // an earlier try has done it
			c.owner, c.etag = next, etag
			return c.metas(ctx, ops)
		case errors.Is(err, engine.ErrPrecondition), errors.Is(err, engine.ErrNotFound):
			return nil, err
		}
		// Not yet. Whichever comes first of that try and another one, the other comes to nothing.
	}
}

// metas returns what operations have written.
func (c *catalogue) metas(ctx context.Context, ops []command.Operation) ([]engine.Meta, error) {
	var metas []engine.Meta
	for _, o := range ops {
		it := engine.Item{}
		if o.Kind != command.Delete {
			var err error
			if it, err = c.s.c.View(protocol.Strong).Read(ctx, c.name, catalogueKey, idOf(o.Body)); err != nil {
				return nil, unavailable(c.s.fail(fmt.Errorf("%w: %w", ErrCatalogue, err)))
			}
		}
		metas = append(metas, it.Meta)
	}
	return metas, nil
}

// UpsertAll implements gateway.Items.
func (c *catalogue) UpsertAll(ctx context.Context, _ engine.PartitionKey, docs [][]byte) ([]engine.Meta, error) {
	ops := make([]command.Operation, len(docs))
	for i, doc := range docs {
		ops[i] = command.Operation{Kind: command.Upsert, Body: doc}
	}
	return c.change(ctx, ops...)
}

// Delete implements gateway.Items.
func (c *catalogue) Delete(ctx context.Context, _ engine.PartitionKey, id string, _ *engine.WriteOptions) error {
	_, err := c.change(ctx, command.Operation{Kind: command.Delete, ID: id})
	return err
}

// watchEvery is how often a gateway looks whether another one has taken over.
const watchEvery = 2 * time.Second

// watch looks whether another gateway has taken the catalogue over, until ctx ends or the store has ended.
func (c *catalogue) watch(ctx context.Context) {
	for tick := time.NewTicker(watchEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-c.s.ended:
			tick.Stop()
			return
		case <-tick.C:
		}
		within, cancel := c.s.bound(ctx)
		now, _, err := c.read(within)
		cancel()
		if err == nil && now.Token != c.token {
			_ = c.s.fail(ErrSuperseded)
		}
	}
}
