package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/condition"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/jsonfault"
)

// batchOperation is an operation of a batch as clients send it.
type batchOperation struct {
	OperationType string          `json:"operationType"`
	ID            string          `json:"id"`
	PartitionKey  string          `json:"partitionKey"` // of a bulk
	IfMatch       *string         `json:"ifMatch"`
	IfNoneMatch   string          `json:"ifNoneMatch"`
	ResourceBody  json.RawMessage `json:"resourceBody"`

	given bool // the body has it
}

// batchResult is the answer to one operation of a batch.
type batchResult struct {
	StatusCode    int             `json:"statusCode"`
	SubStatusCode int             `json:"subStatusCode,omitempty"`
	RequestCharge float64         `json:"requestCharge"`
	ETag          string          `json:"eTag,omitempty"`
	ResourceBody  json.RawMessage `json:"resourceBody,omitempty"`
	RetryAfter    int64           `json:"retryAfterMilliseconds,omitempty"`
	Message       string          `json:"message,omitempty"`
}

// maxBatch is how many operations a batch may have.
const maxBatch = 100

// batchBytes is how many bytes the documents of a transactional batch may have.
const batchBytes = 2 << 20

// answerBytes is how many bytes of documents the results of a batch may have, after which no operation is
// begun. It is more than the documents of a request, which come back.
const answerBytes = 2 * maxBody

// tooMuch says that an operation was not begun because of the results of those before it. Clients send
// that of a bulk again.
func tooMuch() *failure {
	return failf(http.StatusRequestEntityTooLarge, "the results of the operations before have %d bytes or more, so it was not carried out: send it again, with fewer", answerBytes).withSub(subAnswerLarge)
}

// bulkWorkers is how many operations of a bulk are carried out at a time.
const bulkWorkers = 16

func (c *call) postBatch(k *container) error {
	body, err := c.body(maxBody)
	if err != nil {
		return err
	}
	// Of an array, json reads as many operations as there is room for, and empties those that the body does not have.
	var room [maxBatch + 1]batchOperation
	for i := range room {
		room[i].given = true
	}
	if err = json.Unmarshal(body, &room); err != nil {
		return badf("the body of a batch is not a JSON array of operations: %s", jsonfault.Text(err))
	}
	n := slices.IndexFunc(room[:], func(g batchOperation) bool { return !g.given })
	if n < 1 {
		return badf("the batch has no operation, or more than the %d that are possible", maxBatch)
	}
	given, ops := room[:n], make([]operation, n)
	for i := range given {
		g := &given[i]
		ops[i] = operation{kind: lower(g.OperationType), id: g.ID, body: g.ResourceBody, ifMatch: condition.Member(g.IfMatch), ifNoneMatch: g.IfNoneMatch}
		switch ops[i].kind {
		case opCreate, opUpsert, opReplace, opPatch, opDelete, opRead:
		default:
			return badf("operation %d of the batch: the type %q is not known", i, clip(g.OperationType))
		}
	}
	if !isTrue(c.r.Header.Get("X-Ms-Cosmos-Batch-Atomic")) {
		return c.bulk(k, given, ops)
	}
	key, err := c.wholeKey(k)
	if err != nil {
		return err
	}
	size := 0
	for i := range ops {
		size += len(ops[i].body)
	}
	if size > batchBytes {
		return failf(http.StatusRequestEntityTooLarge, "the documents of the batch have %d bytes, at most %d are possible", size, batchBytes)
	}
	results, failed := c.transact(k, key, ops)
	if failed != nil {
		return failed
	}
	c.placeHeaders(k, key)
	return c.answerBatch(k, ops, results)
}

// answerBatch answers a batch: 200 if all operations did their work, else 207.
func (c *call) answerBatch(k *container, ops []operation, results []result) error {
	status := http.StatusOK
	out := make([]batchResult, len(results))
	// Documents come back if the client wants them, or if it reads some.
	bodies := !c.minimal() || slices.ContainsFunc(ops, func(op operation) bool { return op.kind == opRead })
	for i := range results {
		r := &results[i]
		c.charge += r.charge
		out[i] = batchResult{StatusCode: r.status, RequestCharge: r.charge}
		if r.err != nil {
			f := failureOf(r.err)
			status = http.StatusMultiStatus
			out[i].StatusCode, out[i].SubStatusCode, out[i].Message = f.status, f.sub, f.msg
			if f.status == http.StatusTooManyRequests || f.retry > 0 {
				out[i].RetryAfter = max(1, f.retryMillis())
			}
			continue
		}
		c.wrote(r.meta.Seq)
		out[i].ETag = r.meta.ETag.String()
		if r.stored != nil && bodies && r.status != http.StatusNoContent {
			out[i].ResourceBody = k.appendItem(nil, r.stored, r.meta.ETag, 0)
		}
	}
	return c.answerJSON(status, out)
}

// opError is the operation because of which a batch was not carried out.
type opError struct {
	at  int
	err error
}

// Error implements error.
func (e *opError) Error() string { return "operation " + strconv.Itoa(e.at) + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *opError) Unwrap() error { return e.err }

// transact carries out all operations, or none, in one transaction. failed is an error that
// concerns the batch as a whole.
func (c *call) transact(k *container, key engine.PartitionKey, ops []operation) (results []result, failed error) {
	var charge float64
	metas, err := k.items.Transact(c.ctx, key, &engine.UpdateOptions{Charge: &charge}, func(tx Tx) error {
		results = make([]result, len(ops))
		held := 0
		for i := range ops {
			if held >= answerBytes {
				return &opError{i, tooMuch()}
			}
			if err := c.inTx(tx, k, &ops[i], &results[i]); refusal(err) != nil {
				return &opError{i, err}
			} else if err != nil {
				return err
			}
			held += len(results[i].stored)
		}
		return nil
	})
	var unique *engine.UniqueKeyError
	var at *opError
	switch {
	case err == nil:
		// An operation has the etag that its item has after the batch.
		of := make(map[string]*engine.Meta, len(metas))
		for i := range metas {
			of[metas[i].ID] = &metas[i]
		}
		for i := range results {
			r := &results[i]
			r.charge = charge / float64(len(results))
			if m := of[r.meta.ID]; m != nil && r.status != http.StatusNoContent && r.meta.ETag == 0 {
				r.meta = *m
			}
		}
		for i := range metas {
			c.wrote(metas[i].Seq)
		}
		return results, nil
	case errors.As(err, &at):
	case errors.As(err, &unique):
		at = &opError{slices.IndexFunc(results, func(r result) bool { return r.meta.ID == unique.ID && r.meta.ETag == 0 }), err}
	case errors.Is(err, engine.ErrLogicalPartitionFull), errors.Is(err, engine.ErrTooLarge):
		at = &opError{len(ops) - 1, err}
	}
	if at == nil || at.at < 0 {
		c.charge += charge
		return nil, k.outcome(err)
	}
	results = make([]result, len(ops))
	for i := range results {
		results[i] = result{charge: charge / float64(len(results)), err: failf(http.StatusFailedDependency, "operation %d of the batch has failed", at.at)}
	}
	results[at.at].err = at.err
	return results, nil
}

// inTx carries out one operation of a transaction.
func (c *call) inTx(tx Tx, k *container, op *operation, r *result) error {
	o := &engine.WriteOptions{IfMatch: condition.Match(op.ifMatch)}
	r.meta.ID = op.id
	switch op.kind {
	case opRead:
		it, err := tx.Read(op.id)
		r.status, r.meta, r.stored = http.StatusOK, it.Meta, it.Body
		r.meta.ID = op.id
		if err == nil && condition.Unchanged(op.ifNoneMatch, it.ETag) {
			r.status, r.stored = http.StatusNotModified, nil
		}
		return err
	case opDelete:
		r.status = http.StatusNoContent
		return tx.Delete(op.id, o)
	case opPatch:
		p, conditional, err := k.readPatch(op.body)
		if err != nil {
			return err
		}
		r.status = http.StatusOK
		r.stored, err = c.patchIn(tx, k, op, p, conditional)
		return err
	}
	w, bad := readDocument(op.body)
	if bad != nil {
		return bad
	}
	if bad := op.sameID(&w); bad != nil {
		return bad
	}
	r.meta.ID = w.ID
	old, err := tx.Read(w.ID)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	rid := document.RIDOf(old.Body)
	if rid == "" {
		var failed error
		if rid, failed = c.newRID(k); failed != nil {
			return failed
		}
	}
	r.stored = w.Stored(rid, c.o.Clock())
	o.TTL = k.ttl(&w)
	r.status = http.StatusOK
	switch {
	case op.kind == opReplace:
		return tx.Replace(r.stored, o)
	case op.kind == opCreate:
		r.status = http.StatusCreated
		return tx.Create(r.stored, o)
	case errors.Is(err, engine.ErrNotFound):
		r.status, o.IfMatch = http.StatusCreated, 0
	}
	return tx.Upsert(r.stored, o)
}

// bulk carries out operations one by one, several at a time. Those on one item are carried
// out in their order.
func (c *call) bulk(k *container, given []batchOperation, ops []operation) error {
	if id := c.r.Header.Get("X-Ms-Documentdb-Partitionkeyrangeid"); id != "" {
		if _, bad := k.namedRange(c.o.Clock(), id); bad != nil {
			return bad
		}
	}
	keys := make([]engine.PartitionKey, len(ops))
	goesOn := isTrue(c.r.Header.Get("X-Ms-Cosmos-Batch-Continue-On-Error"))
	results := make([]result, len(ops))
	lines := make([][]int, bulkWorkers)
	for i := range ops {
		var ok bool
		if keys[i], ok, results[i].err = k.parseKey(given[i].PartitionKey); results[i].err == nil {
			results[i].err = k.checkKey(keys[i], ok)
		}
		h := fnv.New32a()
		if goesOn {
			h.Write(keys[i].Encoded())
		}
		line := int(h.Sum32() % bulkWorkers)
		lines[line] = append(lines[line], i)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	sub := *c
	sub.ctx = ctx
	var work sync.WaitGroup
	var held atomic.Int64 // bytes of documents in results
	for _, line := range lines {
		if len(line) == 0 {
			continue
		}
		work.Go(func() {
			stopped := false
			for _, i := range line {
				switch r := &results[i]; {
				case stopped:
					r.err = failf(http.StatusFailedDependency, "an operation before it has failed")
				case r.err == nil && held.Load() >= answerBytes: // so it stays: later ones on the same item are not begun either
					r.err = tooMuch()
				case r.err == nil:
					results[i] = sub.run(k, keys[i], true, &ops[i])
					held.Add(int64(len(results[i].stored)))
				}
				stopped = !goesOn && results[i].err != nil
			}
		})
	}
	work.Wait()
	c.placeHeaders(k, keys[0])
	return c.answerBatch(k, ops, results)
}
