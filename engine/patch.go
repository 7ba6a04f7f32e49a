package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/internal/docpatch"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/writebatch"
)

// Patch changes parts of a document, in order: all of them or none. A path is a
// JSON pointer, "/address/city" or "/tags/0"; the object or array that holds the
// place must exist. In an array "-" is the place behind the last element; in a
// name ~1 stands for a slash and ~0 for a tilde. Values are encoded as encoding/json does
// it, without escapes for HTML; a json.RawMessage stands for itself, but for white space.
// The rest of the document stays as it is, byte for byte.
//
// Methods add to the patch and return it. The call that uses the patch returns
// their errors. The zero Patch is empty. A patch has at most 10 changes. It must not be
// changed while it is used.
type Patch struct{ of docpatch.Patch }

// PatchError tells which change of a patch could not be made. It comes as a *PatchError, and
// matches ErrInvalid.
//
//	Index int    // of the change in the patch, from 0
//	Op    string // "set", "add", "replace", "remove", "increment" or "move"
//	Path  string
//	Err   error // cause
type PatchError = docpatch.Error

// Set puts a value at path, whether or not there is one.
func (p *Patch) Set(path string, value any) *Patch { return p.value(jsondoc.EditSet, path, value) }

// Add is Set, but inserts before an element of an array.
func (p *Patch) Add(path string, value any) *Patch { return p.value(jsondoc.EditAdd, path, value) }

// Replace is Set, but there must be a value at path.
func (p *Patch) Replace(path string, value any) *Patch {
	return p.value(jsondoc.EditReplace, path, value)
}

func (p *Patch) value(kind jsondoc.EditKind, path string, value any) *Patch {
	p.of.Value(kind, path, value)
	return p
}

// Remove removes a member or an element, which must exist.
func (p *Patch) Remove(path string) *Patch {
	p.of.Remove(path)
	return p
}

// Increment adds by to the number at path; if there is no value, it sets by. Whole
// numbers of up to 64 bits are added exactly.
func (p *Patch) Increment(path string, by float64) *Patch {
	p.of.Increment(path, by)
	return p
}

// Move removes the value at from, which must exist, and adds it at path.
func (p *Patch) Move(from, path string) *Patch {
	p.of.Move(from, path)
	return p
}

// When adds a condition on the document as it is before the patch: unless it is
// true the patch fails with ErrPrecondition, and nothing is written. An undefined
// condition is not true. If there are several conditions, all must be true.
func (p *Patch) When(f Filter) *Patch {
	p.of.When(f.tree(), f.err)
	return p
}

// Apply returns a document with the changes, in new memory, as the store would write it: ErrPrecondition if a
// condition is not true, *PatchError if a change cannot be made, ErrInvalid if doc is not JSON or the patch is
// empty. It does not check what a container demands of its documents. tag is the etag of doc in conditions on DOCUMENTETAG.
func (p *Patch) Apply(ctx context.Context, doc []byte, tag ETag) ([]byte, error) {
	if err := p.of.Check(); err != nil {
		return nil, patchError(err)
	}
	if !json.Valid(doc) {
		return nil, invalidf("Apply: the document is not JSON")
	}
	out, err := p.of.Apply(ctx, doc, uint64(tag))
	return out, patchError(err)
}

// Len returns the number of changes.
func (p *Patch) Len() int { return p.of.Len() }

// patchError returns an error of a patch as users see it.
func patchError(err error) error {
	if err == docpatch.ErrCondition {
		return ErrPrecondition
	}
	if err == nil || errors.Is(err, ErrInvalid) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

// Patch changes parts of an item: ErrNotFound if there is none, *PatchError if a
// change cannot be made, ErrKeyMismatch or ErrInvalid if the document would get
// another partition key or id, ErrPrecondition if a condition of p is not true.
// A concurrent write of the item makes no difference, unless IfMatch is given.
// Further errors: those of Upsert.
func (c *Container) Patch(ctx context.Context, pk PartitionKey, id string, p *Patch, o *WriteOptions) (Meta, error) {
	if o.hasTriggers() {
		if err := c.NewBatch(pk).checkPatch(p); err != nil {
			return Meta{}, err
		}
		return c.writeTriggered(ctx, pk, o, &triggered{verb: verbPatch, id: id, patch: p})
	}
	return c.alone(ctx, pk, o, func(b *Batch, o *WriteOptions) error { return b.Patch(id, p, o) })
}

// Patch adds a change of parts of an item that must exist. The patch must not be
// changed until the batch is committed: only then is the patched document made and
// checked against limits.
func (b *Batch) Patch(id string, p *Patch, o *WriteOptions) error {
	if err := b.usable(); err != nil {
		return err
	}
	if err := b.checkPatch(p); err != nil {
		return err
	}
	if err := b.c.checkBytes(verbPatch, b.pk, id, nil); err != nil {
		return err
	}
	op := writebatch.Op{}
	if err := b.c.fill(&op, verbPatch, b.c.defaultTTL(), o); err != nil {
		return err
	}
	op.Patch = &p.of
	return b.writes.Add(op, bytesOf(id), nil)
}

func (b *Batch) checkPatch(p *Patch) error {
	if b.c.def.Kind != JSON {
		return invalidf("Patch: container %q is opaque", b.c.name)
	}
	if p == nil {
		return invalidf("Patch: no patch is given")
	}
	return patchError(p.of.Check())
}

// Patch changes parts of an item; ErrNotFound if there is none.
func (tx *Tx) Patch(id string, p *Patch, o *WriteOptions) error {
	if err := tx.writable(); err != nil {
		return err
	}
	if err := tx.update.checkPatch(p); err != nil {
		return err
	}
	it, err := tx.Read(id)
	if err != nil {
		return err
	}
	if o != nil && o.IfMatch != 0 && o.IfMatch != it.ETag {
		return ErrPrecondition // comes before errors of the patch, as in a batch
	}
	body, ttl, err := tx.update.patched(tx.ctx, bytesOf(id), it.Body, it.ETag, &p.of)
	if err != nil {
		return err
	}
	return tx.write(verbReplace, bytesOf(id), body, ttl, o)
}

// patched returns body with a patch applied, and the time to live of the result. It
// scans the result: that has the same partition key and id.
func (b *Batch) patched(ctx context.Context, id, body []byte, tag ETag, p *docpatch.Patch) (doc []byte, ttl int64, err error) {
	if body, err = p.Apply(ctx, body, uint64(tag)); err != nil {
		return nil, 0, patchError(err)
	}
	ttl, err = b.checkChanged(id, body)
	return body, ttl, err
}

// checkChanged returns the time to live of a changed document. It scans the document: that
// has the same partition key and id.
func (b *Batch) checkChanged(id, doc []byte) (ttl int64, err error) {
	r := requests.Get().(*request)
	defer r.release()
	if err := b.scan(r, doc); err != nil {
		return 0, err
	}
	if !bytes.Equal(r.doc.ID, id) {
		return 0, invalidf("the id is changed from %q to %q", id, r.doc.ID)
	}
	return r.ttl, nil
}
