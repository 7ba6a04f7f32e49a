package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/condition"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/jsonfault"
	"github.com/cleavestore/cleave/gateway/internal/keyrange"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
	"github.com/cleavestore/cleave/gateway/internal/sessiontoken"
	"github.com/cleavestore/cleave/gateway/internal/wirekey"
)

// sessionToken returns the token of a physical partition: it has the newest sequence of
// which a client can know. Sequences are store-wide, so they never fall.
func (c *call) sessionToken(rangeID string) string {
	if c.sessions != nil {
		return c.sessions.Token(c.ctx) // and once more with the answer
	}
	return rangeID + ":-1#" + strconv.FormatUint(c.shared.newest.Load(), 10)
}

// levels are the consistency levels that a request may ask for, by their names in lower case.
var levels = map[string]string{
	"strong": "Strong", "boundedstaleness": "BoundedStaleness", "session": "Session", "consistentprefix": "ConsistentPrefix", "eventual": "Eventual",
}

// beginSession begins the session of a request. A write is judged by the newest state; a read has the level
// that it asks for, or that of the account. A token counts at the level session only, but is read at every one.
func (c *call) beginSession(res resource) error {
	level, head := c.o.Consistency, c.r.Header
	if asked := head.Get("X-Ms-Consistency-Level"); asked != "" {
		if level = levels[lower(asked)]; level == "" {
			return badf("x-ms-consistency-level %q is not known", clip(asked))
		}
	}
	var err error
	if c.seen, err = sessiontoken.Parse(head.Get("X-Ms-Session-Token")); err != nil {
		return badf("x-ms-session-token: %v", err)
	}
	if c.sessions == nil { // all reads are strong
		if level != "Session" {
			c.seen = nil
		}
		return nil
	}
	switch c.kind(res) {
	case opRead, kindQuery, kindFeed, kindList, kindRanges, kindContainer, kindPlan:
	default:
		level = "Strong"
	}
	ctx, err := c.sessions.Begin(c.ctx, level, sessiontoken.Text(c.seen))
	switch {
	case err == nil:
		c.ctx = ctx
	case errors.Is(err, engine.ErrInvalid):
		return badf("x-ms-session-token: %v", err)
	}
	return err
}

// wrote notes the sequence of a write.
func (h *Handler) wrote(seq uint64) {
	for {
		newest := h.shared.newest.Load()
		if seq <= newest || h.shared.newest.CompareAndSwap(newest, seq) {
			return
		}
	}
}

// checkSession refuses a read whose session has seen writes that this store does not have:
// it was restored to an older state.
func (c *call) checkSession() *failure {
	if c.sessions != nil {
		return nil // the token is part of the session
	}
	most := sessiontoken.Newest(c.seen)
	if most > c.shared.newest.Load() {
		c.wrote(c.db.LastSeq()) // others may write to the store
	}
	if newest := c.shared.newest.Load(); most > newest {
		return failf(http.StatusNotFound, "the session is at sequence %d, the newest one is %d", most, newest).withSub(subSessionAhead)
	}
	return nil
}

// key returns the partition key that the request names.
func (c *call) key(k *container) (key engine.PartitionKey, given bool, err error) {
	text := c.r.Header.Get("X-Ms-Documentdb-Partitionkey")
	if text == "" {
		return key, false, nil
	}
	return k.parseKey(text)
}

// parseKey is parseKey for a key of the container.
func (k *container) parseKey(text string) (key engine.PartitionKey, given bool, err error) {
	key, given, err = parseKey(text)
	return keyrange.Own(k.record.Definition.PartitionKey.Version, key), given, err
}

// wholeKey is key for calls that need one with all levels.
func (c *call) wholeKey(k *container) (engine.PartitionKey, error) {
	key, given, err := c.key(k)
	if err != nil {
		return key, err
	}
	return key, k.checkKey(key, given)
}

func (k *container) checkKey(key engine.PartitionKey, given bool) error {
	paths := k.record.Definition.PartitionKey.Paths
	if !given {
		return badf("the partition key of the item must be given in x-ms-documentdb-partitionkey: the container has %s", strings.Join(paths, ", "))
	}
	if key.Len() != len(paths) {
		return badf("the partition key %s has %d levels, those of the container have %d: %s", clip(key.String()), key.Len(), len(paths), strings.Join(paths, ", ")).
			withSub(subKeyMismatch)
	}
	return nil
}

// minimal says whether the client wants no document back.
func (c *call) minimal() bool {
	return strings.EqualFold(c.r.Header.Get("Prefer"), "return=minimal")
}

// itemHeaders sets the headers of answers about an item.
func (c *call) itemHeaders(k *container, m *engine.Meta) {
	if m.ETag != 0 {
		c.set("Etag", m.ETag.String())
	}
	if m.Seq != 0 {
		c.set("Lsn", strconv.FormatUint(m.Seq, 10))
	}
	c.placeHeaders(k, m.Key)
}

func (c *call) placeHeaders(k *container, key engine.PartitionKey) {
	c.rangeHeaders(k, k.rangeID(c.o.Clock(), key))
}

func (c *call) rangeHeaders(k *container, id string) {
	c.set("X-Ms-Documentdb-Partitionkeyrangeid", id)
	c.set("X-Ms-Session-Token", c.sessionToken(id))
	c.pathHeaders(k)
}

func (c *call) answerItem(k *container, status int, m *engine.Meta, stored []byte) {
	c.itemHeaders(k, m)
	if stored == nil {
		c.answer(status, nil)
		return
	}
	c.answer(status, k.appendItem(make([]byte, 0, len(stored)+document.SystemBytes), stored, m.ETag, 0))
}

// postItems answers POST …/docs: a new item, an upsert, a query, a plan or a batch.
func (c *call) postItems(k *container) error {
	kind := c.posted()
	switch kind {
	case kindPlan:
		return c.queryPlan(k)
	case kindBatch, kindBulk:
		return c.postBatch(k)
	case kindQuery:
		return c.queryItems(k)
	}
	return c.write(k, &operation{kind: kind})
}

func (c *call) replaceItem(k *container) error {
	return c.write(k, &operation{kind: opReplace, id: c.path[5]})
}

// write carries out an operation with the document of the request, which may name the partition key.
func (c *call) write(k *container, op *operation) error {
	body, err := c.body(maxBody)
	if err != nil {
		return err
	}
	key, given, err := c.key(k)
	if err != nil {
		return err
	}
	op.body, op.ifMatch = body, condition.Header(c.r.Header)
	return c.single(k, key, given, op)
}

func (c *call) patchItem(k *container) error {
	body, err := c.body(maxBody)
	if err != nil {
		return err
	}
	key, err := c.wholeKey(k)
	if err != nil {
		return err
	}
	return c.single(k, key, true, &operation{kind: opPatch, id: c.path[5], body: body, ifMatch: condition.Header(c.r.Header)})
}

func (c *call) deleteItem(k *container) error {
	key, err := c.wholeKey(k)
	if err != nil {
		return err
	}
	return c.single(k, key, true, &operation{kind: opDelete, id: c.path[5], ifMatch: condition.Header(c.r.Header)})
}

// deleteKey deletes all items of a partition key. The service does so by and by; here they are
// gone when it answers.
func (c *call) deleteKey(k *container) error {
	key, err := c.wholeKey(k)
	if err != nil {
		return err
	}
	err = k.items.DeleteLogicalPartition(c.ctx, key, &engine.WriteOptions{Charge: &c.charge})
	c.wrote(c.db.LastSeq())
	c.placeHeaders(k, key)
	if err != nil {
		return k.outcome(err)
	}
	c.answer(http.StatusOK, nil)
	return nil
}

func (c *call) readItem(k *container) error {
	key, err := c.wholeKey(k)
	if err != nil {
		return err
	}
	if bad := c.checkSession(); bad != nil {
		return bad
	}
	c.placeHeaders(k, key)
	it, err := k.items.Read(c.ctx, key, c.path[5])
	c.charge += it.Charge
	if err != nil {
		return k.outcome(err)
	}
	c.itemHeaders(k, &it.Meta)
	if condition.Unchanged(c.r.Header.Get("If-None-Match"), it.ETag) {
		c.answer(http.StatusNotModified, nil)
		return nil
	}
	c.answer(http.StatusOK, k.appendItem(make([]byte, 0, len(it.Body)+document.SystemBytes), it.Body, it.ETag, 0))
	return nil
}

// outcome returns an error of the store as an answer. A handle of a dropped container is
// closed.
func (k *container) outcome(err error) error {
	if errors.Is(err, engine.ErrClosed) {
		return errors.Join(errDropped, err)
	}
	return err
}

// single carries out one operation and answers.
func (c *call) single(k *container, key engine.PartitionKey, given bool, op *operation) error {
	pre, post, err := c.triggersOf(k, op)
	if err != nil {
		return err
	}
	var r result
	if len(pre)+len(post) > 0 {
		r = c.triggered(k, key, given, op, pre, post)
	} else {
		r = c.run(k, key, given, op)
	}
	c.charge += r.charge
	if r.err != nil {
		if key.Valid() {
			c.placeHeaders(k, key)
		}
		return r.err
	}
	if c.minimal() && r.status != http.StatusNoContent {
		r.stored = nil
	}
	c.answerItem(k, r.status, &r.meta, r.stored)
	return nil
}

// Operations on items.
const (
	opCreate  = "create"
	opUpsert  = "upsert"
	opReplace = "replace"
	opPatch   = "patch"
	opDelete  = "delete"
	opRead    = "read"
)

// operation is a change of one item, or a read in a batch.
type operation struct {
	kind        string
	id          string // not of create and upsert
	body        []byte
	ifMatch     string
	ifNoneMatch string // of a read
}

// result is what an operation has done.
type result struct {
	status int
	meta   engine.Meta
	stored []byte // the document after it, as the store has it; nil: none
	charge float64
	err    error
}

// run carries out one operation as a call of its own.
func (c *call) run(k *container, key engine.PartitionKey, given bool, op *operation) (r result) {
	r.err = c.carryOut(k, key, given, op, &r)
	if r.err != nil {
		r.err = k.outcome(r.err)
		return r
	}
	c.wrote(r.meta.Seq)
	return r
}

// maxUpserts is how often an upsert finds no item, but one when it creates it, before the client is to try again.
const maxUpserts = 16

func (c *call) carryOut(k *container, key engine.PartitionKey, given bool, op *operation, r *result) (err error) {
	o := &engine.WriteOptions{IfMatch: condition.Match(op.ifMatch), Charge: &r.charge}
	if given {
		if err = k.checkKey(key, given); err != nil {
			return err
		}
		o.Key = key
	}
	switch op.kind {
	case opRead:
		it, failed := k.items.Read(c.ctx, key, op.id)
		r.charge = it.Charge
		r.status, r.meta, r.stored = http.StatusOK, it.Meta, it.Body
		if failed == nil && condition.Unchanged(op.ifNoneMatch, it.ETag) {
			r.status, r.stored = http.StatusNotModified, nil
		}
		return failed
	case opDelete:
		r.status, r.meta.Key = http.StatusNoContent, key
		o.Key = engine.PartitionKey{}
		return k.items.Delete(c.ctx, key, op.id, o)
	case opPatch:
		return c.patch(k, key, op, o, r)
	}
	w, bad := readDocument(op.body)
	if bad != nil {
		return bad
	}
	if bad := op.sameID(&w); bad != nil {
		return bad
	}
	if !given {
		if key, err = k.items.KeyOf(w.Stored(resourceid.Item(k.rid, 0), c.o.Clock())); err != nil {
			return err
		}
	}
	o.TTL = k.ttl(&w)
	if op.kind == opCreate {
		return c.create(k, &w, o, r)
	}
	// A document that is replaced keeps its resource id. If another request deletes it
	// meanwhile, or makes it, the id is one that no other item has either.
	old, err := k.items.Read(c.ctx, key, w.ID)
	r.charge += old.Charge
	for try := 0; op.kind == opUpsert && errors.Is(err, engine.ErrNotFound); try++ {
		if try == maxUpserts {
			return fmt.Errorf("an upsert, tried %d times: %w", try, engine.ErrConflict)
		}
		// If-Match says nothing of an item that does not exist.
		o.IfMatch = 0
		if err = c.create(k, &w, o, r); !errors.Is(err, engine.ErrExists) {
			return err
		}
		// Another request has made it meanwhile. A third one may delete it again.
		o.IfMatch = condition.Match(op.ifMatch)
		old, err = k.items.Read(c.ctx, key, w.ID)
		r.charge += old.Charge
	}
	if err != nil {
		return err
	}
	rid := document.RIDOf(old.Body)
	if rid == "" {
		if rid, err = c.newRID(k); err != nil {
			return err
		}
	}
	r.stored = w.Stored(rid, c.o.Clock())
	r.status = http.StatusOK
	if op.kind == opReplace {
		r.meta, err = k.items.Replace(c.ctx, r.stored, o)
	} else {
		r.meta, err = k.items.Upsert(c.ctx, r.stored, o)
	}
	return err
}

// sameID checks the id of a document against that of the path.
func (op *operation) sameID(w *document.Written) *failure {
	if w.ID == "" {
		return badf("the document has no member id that is a string of at least one character")
	}
	if op.kind == opReplace && op.id != w.ID {
		return badf("the path names the id %q, the document has %q", clip(op.id), clip(w.ID))
	}
	return nil
}

func (c *call) newRID(k *container) (string, error) {
	n, err := c.catalog.itemNumber(context.WithoutCancel(c.ctx))
	if err != nil {
		return "", err
	}
	return resourceid.Item(k.rid, n), nil
}

func (c *call) create(k *container, w *document.Written, o *engine.WriteOptions, r *result) error {
	rid, err := c.newRID(k)
	if err != nil {
		return err
	}
	r.stored = w.Stored(rid, c.o.Clock())
	r.status = http.StatusCreated
	r.meta, err = k.items.Create(c.ctx, r.stored, o)
	return err
}

// patchBody is the body of a patch.
type patchBody struct {
	Condition  string `json:"condition"`
	Operations []struct {
		Op    string          `json:"op"`
		Path  string          `json:"path"`
		From  string          `json:"from"`
		Value json.RawMessage `json:"value"`
	} `json:"operations"`
}

// maxPatch is how many changes a patch may have.
const maxPatch = 10

// readPatch returns the patch that a body describes, the time stamp apart.
func (k *container) readPatch(body []byte) (*engine.Patch, bool, error) {
	var b patchBody
	if err := json.Unmarshal(body, &b); err != nil {
		// A list of operations alone is a patch too.
		if json.Unmarshal(body, &b.Operations) != nil {
			return nil, false, badf("the body of a patch is not JSON with operations: %s", jsonfault.Text(err))
		}
	}
	if len(b.Operations) == 0 || len(b.Operations) > maxPatch {
		return nil, false, badf("the patch has %d operations, between 1 and %d are possible", len(b.Operations), maxPatch)
	}
	p := &engine.Patch{}
	for i, op := range b.Operations {
		for _, path := range []string{op.Path, op.From} {
			if name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); name == "id" || document.IsSystem([]byte(name)) {
				return nil, false, badf("operation %d of the patch: the member %q cannot be patched", i, name)
			}
		}
		value, kind := op.Value, lower(op.Op)
		if value == nil && (kind == "add" || kind == "set" || kind == "replace") {
			// The client may have lost it: JavaScript does not write undefined. null is a value.
			return nil, false, badf("operation %d of the patch: the required property 'value' could not be found", i)
		}
		switch kind {
		case "add":
			p.Add(op.Path, value)
		case "set":
			p.Set(op.Path, value)
		case "replace":
			p.Replace(op.Path, value)
		case "remove":
			p.Remove(op.Path)
		case "incr", "increment":
			var by float64
			if err := json.Unmarshal(value, &by); err != nil || string(value) == "null" {
				return nil, false, badf("operation %d of the patch: the value of incr is not a number", i)
			}
			p.Increment(op.Path, by)
		case "move":
			p.Move(op.From, op.Path)
		default:
			return nil, false, badf("operation %d of the patch: op %q is not known: add, set, replace, remove, incr and move are", i, clip(op.Op))
		}
	}
	if b.Condition != "" {
		s, err := k.parse("SELECT * "+b.Condition, nil)
		if err != nil {
			return nil, false, badf("condition of the patch: %v", err)
		}
		if !s.Documents() || s.Aggregated() {
			return nil, false, badf("condition of the patch: %q is not of the form from c where …", clip(b.Condition))
		}
		p.When(s.Query.Where)
	}
	return p, b.Condition != "", nil
}

func (c *call) patch(k *container, key engine.PartitionKey, op *operation, o *engine.WriteOptions, r *result) error {
	// The time stamp is an eleventh change, so it is a second operation of the batch.
	p, conditional, err := k.readPatch(op.body)
	if err != nil {
		return err
	}
	metas, err := k.items.Transact(c.ctx, key, &engine.UpdateOptions{Charge: &r.charge}, func(tx Tx) error {
		var failed error
		r.stored, failed = c.patchIn(tx, k, op, p, conditional)
		return failed
	})
	if err != nil {
		return err
	}
	r.status, r.meta = http.StatusOK, metas[0]
	return nil
}

// patchIn patches an item in a transaction and returns the document after it.
func (c *call) patchIn(tx Tx, k *container, op *operation, p *engine.Patch, conditional bool) ([]byte, error) {
	o := &engine.WriteOptions{IfMatch: condition.Match(op.ifMatch)}
	err := tx.Patch(op.id, p, o)
	if conditional && errors.Is(err, engine.ErrPrecondition) {
		sub := 0
		if it, failed := tx.Read(op.id); o.IfMatch == 0 || failed == nil && it.ETag == o.IfMatch {
			sub = subConditionFalse
		}
		return nil, (&failure{status: http.StatusPreconditionFailed, msg: err.Error()}).withSub(sub)
	}
	if err != nil {
		return nil, err
	}
	it, err := tx.Read(op.id)
	if err != nil {
		return nil, err
	}
	w, bad := readDocument(it.Body)
	if bad != nil {
		return nil, bad
	}
	// How long the item lives follows from the patched document.
	stamp := new(engine.Patch).Set("/"+document.TS, c.o.Clock().Unix())
	if err = tx.Patch(op.id, stamp, &engine.WriteOptions{TTL: k.ttl(&w)}); err != nil {
		return nil, err
	}
	it, err = tx.Read(op.id)
	return it.Body, err
}

// parseKey reads a partition key as clients send it. given is false for an empty array.
func parseKey(text string) (key engine.PartitionKey, given bool, err error) {
	if key, given, err = wirekey.Parse(text); err != nil {
		return key, false, badf("%v", err)
	}
	return key, given, nil
}
