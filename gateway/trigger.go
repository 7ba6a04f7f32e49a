package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
	"github.com/cleavestore/cleave/gateway/internal/script"
)

// A write that names triggers is a transaction: the pre-triggers, the write, the
// post-triggers. It is repeated as a whole if another request changes what it has read.

// maxTriggers is how many triggers of a type a request may name.
const maxTriggers = 5

// included returns the triggers of a type that the request names.
func (c *call) included(k *container, header, kind string, does ...string) ([]*child, error) {
	names := c.r.Header.Get(header)
	if names == "" {
		return nil, nil
	}
	var all []*child
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		r := c.catalog.resource(c.ofContainer(k, kindTrigger).set, name)
		if r == nil {
			return nil, badf("container %q has no trigger %q", k.record.Name, clip(name))
		}
		d := r.definition()
		if lower(d.TriggerType) != kind {
			return nil, badf("the trigger %q is a %s-trigger, %s names it", clip(name), lower(d.TriggerType), strings.ToLower(header))
		}
		if on := lower(d.TriggerOperation); on != "all" && !slices.Contains(does, on) {
			return nil, badf("the trigger %q is for %s, the request is a %s", clip(name), on, does[0])
		}
		all = append(all, r)
	}
	if len(all) > maxTriggers {
		return nil, badf("the request names %d %s-triggers, at most %d are possible", len(all), kind, maxTriggers)
	}
	return all, nil
}

// triggersOf returns the triggers that a request names.
func (c *call) triggersOf(k *container, op *operation) (pre, post []*child, err error) {
	does := []string{op.kind}
	switch op.kind {
	case opReplace, opPatch:
		does = []string{"replace", "update"}
	case opUpsert:
		does = []string{"upsert", "create", "replace", "update"}
	}
	if pre, err = c.included(k, "X-Ms-Documentdb-Pre-Trigger-Include", "pre", does...); err == nil {
		post, err = c.included(k, "X-Ms-Documentdb-Post-Trigger-Include", "post", does...)
	}
	return pre, post, err
}

// triggered carries out one operation with its triggers.
func (c *call) triggered(k *container, key engine.PartitionKey, given bool, op *operation, pre, post []*child) (r result) {
	r.err = func() error {
		if err := c.keyOf(k, &key, given, op); err != nil {
			return err
		}
		session, err := c.scripts.Begin(c.ctx)
		if err != nil {
			return err
		}
		defer session.End()
		var log string
		metas, err := k.items.Transact(c.ctx, key, &engine.UpdateOptions{Serializable: true, Charge: &r.charge}, func(tx Tx) error {
			charge := r.charge
			r, log = result{}, ""
			r.charge = charge
			return c.writeTriggered(session, tx, k, key, op, pre, post, &r, &log)
		})
		if err != nil {
			return err
		}
		for i := range metas {
			c.wrote(metas[i].Seq)
			if metas[i].ID == r.meta.ID && r.status != http.StatusNoContent {
				r.meta = metas[i]
			}
		}
		r.meta.Key = key
		c.logged(log)
		return nil
	}()
	if r.err != nil {
		r.err = k.outcome(r.err)
	}
	return r
}

// keyOf sees to it that key is the partition key of the operation.
func (c *call) keyOf(k *container, key *engine.PartitionKey, given bool, op *operation) error {
	if given {
		return k.checkKey(*key, given)
	}
	w, bad := readDocument(op.body)
	if bad != nil {
		return bad
	}
	body := w.Stored(resourceid.Item(k.rid, 0), c.o.Clock())
	if w.ID == "" {
		body = document.WithID(body) // a pre-trigger may give the id
	}
	var err error
	*key, err = k.items.KeyOf(body)
	return err
}

// writeTriggered is the transaction of a write with triggers.
func (c *call) writeTriggered(s *script.Session, tx Tx, k *container, key engine.PartitionKey, given *operation, pre, post []*child, r *result, log *string) error {
	op := *given
	one := func(t *child, response []byte) (*script.Result, error) {
		job := c.job(k, t, key)
		if op.kind != opDelete && op.kind != opPatch {
			job.Request = op.body
		}
		if response != nil {
			job.Response = response
		}
		job.Operation = strings.ToUpper(op.kind[:1]) + op.kind[1:]
		job.Values = map[string]string{}
		for name := range c.r.Header {
			if name != "Authorization" {
				job.Values[strings.ToLower(name)] = c.r.Header.Get(name)
			}
		}
		out, err := c.runScript(s, tx, k, job)
		if err != nil {
			return nil, err
		}
		*log += out.Log
		return out, nil
	}
	for _, t := range pre {
		out, err := one(t, nil)
		if err != nil {
			return err
		}
		if job := out.Request; job != nil && op.kind != opDelete && op.kind != opPatch {
			op.body = job
		}
	}
	if len(op.body) > 0 && op.kind != opPatch {
		if _, bad := readDocument(op.body); bad != nil {
			return bad
		}
	}
	if err := c.inTx(tx, k, &op, r); err != nil {
		return err
	}
	for _, t := range post {
		response := []byte(nil)
		if r.stored != nil {
			response = k.appendItem(nil, r.stored, r.meta.ETag, 0)
		}
		if _, err := one(t, response); err != nil {
			return err
		}
	}
	// What a post-trigger has made of the item itself is what clients get.
	if len(post) > 0 && r.stored != nil {
		it, err := tx.Read(r.meta.ID)
		if errors.Is(err, engine.ErrNotFound) {
			return nil // it was deleted
		}
		if err != nil {
			return err
		}
		r.stored = it.Body
	}
	return nil
}
