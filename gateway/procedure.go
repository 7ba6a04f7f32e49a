package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/computed"
	"github.com/cleavestore/cleave/gateway/internal/condition"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/jsonfault"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
	"github.com/cleavestore/cleave/gateway/internal/script"
	"github.com/cleavestore/cleave/gateway/internal/statement"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// A stored procedure runs in one transaction, which is repeated with all of the script if
// another request changes what it has read or written. Its operations are those of
// operation, and see what the script has written before.

const (
	scriptPlaces = 4 // scripts that run at a time
	scanBytes    = 32 << 20
	// subUnreadable is the sub-status of 400 for a script that cannot be read.
	subUnreadable = 0xFFFF
)

// executeProcedure answers POST …/sprocs/id.
func (c *call) executeProcedure(k *container, name string) error {
	r := c.catalog.resource(c.ofContainer(k, kindProcedure).set, name)
	if r == nil {
		return failf(http.StatusNotFound, "container %q has no stored procedure %q", k.record.Name, clip(name))
	}
	body, err := c.body(maxQueryBody)
	if err != nil {
		return err
	}
	var args []json.RawMessage
	if len(body) > 0 {
		if err = json.Unmarshal(body, &args); err != nil {
			return badf("the arguments of a stored procedure are not a JSON array: %s", jsonfault.Text(err))
		}
	}
	key, err := c.wholeKey(k)
	if err != nil {
		return err
	}
	session, err := c.scripts.Begin(c.ctx)
	if err != nil {
		return err
	}
	defer session.End()
	var out *script.Result
	metas, err := k.items.Transact(c.ctx, key, &engine.UpdateOptions{Serializable: true, Charge: &c.charge}, func(tx Tx) error {
		job := c.job(k, r, key)
		job.Args = args
		var failed error
		out, failed = c.runScript(session, tx, k, job)
		return failed
	})
	session.End() // a client that reads the answer slowly holds no place
	c.placeHeaders(k, key)
	if err != nil {
		return k.outcome(err)
	}
	for i := range metas {
		c.wrote(metas[i].Seq)
	}
	c.logged(out.Log)
	c.placeHeaders(k, key)
	c.answer(http.StatusOK, out.Response)
	return nil
}

// logged tells what a script has logged, if the client wants to know.
func (c *call) logged(text string) {
	if text == "" || !isTrue(c.r.Header.Get("X-Ms-Documentdb-Script-Enable-Logging")) {
		return
	}
	// Clients read headers of 16 KiB in all.
	var out strings.Builder
	for _, r := range text {
		if out.Len() > 8<<10 {
			break
		}
		out.WriteString(strings.ReplaceAll(url.QueryEscape(string(r)), "+", "%20"))
	}
	c.w.Header().Set("x-ms-documentdb-script-log-results", out.String())
}

// job returns the job of a script in a logical partition.
func (c *call) job(k *container, r *child, key engine.PartitionKey) *script.Job {
	limits := k.items.Def().Limits
	bytes := cmp.Or(int(limits.BatchBytes), 2<<20)
	return &script.Job{
		Name: r.record.Name, Source: r.definition().Body,
		Writes: cmp.Or(limits.BatchOperations, 100), Bytes: bytes - bytes/8, Each: len(key.Encoded()) + document.SystemBytes/4,
		Link: "dbs/" + k.record.Database + "/colls/" + k.record.Name, Self: k.self(),
	}
}

// runScript runs a script in a transaction.
func (c *call) runScript(s *script.Session, tx Tx, k *container, job *script.Job) (*script.Result, error) {
	t := &scriptTx{call: c, tx: tx, k: k, ids: make(map[string]string), session: s}
	out, err := s.Run(job, t.operate)
	var thrown *script.Failure
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &thrown):
		return nil, thrownBy(job.Name, thrown)
	case errors.Is(err, script.ErrTime):
		return nil, failf(http.StatusRequestTimeout, "script %q: %v", job.Name, err)
	case errors.Is(err, script.ErrMemory), errors.Is(err, script.ErrDied):
		return nil, badf("script %q: %v", job.Name, err)
	}
	return nil, err
}

// thrownBy returns the answer for a script that has thrown.
func thrownBy(name string, thrown *script.Failure) *failure {
	f := badf("script %q: %s", name, thrown.Message)
	switch {
	case thrown.Compile:
		f.sub = subUnreadable
	case thrown.Number > 0 && thrown.Number < subUnreadable:
		f.sub = thrown.Number
	}
	return f
}

// scriptTx carries out the operations of a script.
type scriptTx struct {
	*call
	tx  Tx
	k   *container
	ids map[string]string // of documents that the script has seen, by resource id

	session *script.Session
}

// operate carries out one operation. What is wrong with it is told to the script; other
// errors end it, as ctx does.
func (t *scriptTx) operate(ctx context.Context, op *script.Operation) (*script.Answer, error) {
	a := &script.Answer{}
	err := t.perform(ctx, op, a)
	if f := refusal(err); f != nil {
		return &script.Answer{Failure: &script.Failure{Number: f.status, Message: f.msg}}, nil
	}
	return a, err
}

func (t *scriptTx) perform(ctx context.Context, op *script.Operation, a *script.Answer) error {
	o := operation{kind: op.Verb, body: op.Document, ifMatch: op.ETag}
	if o.ifMatch == condition.Unknown {
		o.ifMatch = "" // the script itself has written it
	}
	switch op.Verb {
	case "query":
		return t.query(ctx, op, a)
	case opCreate, opUpsert:
		if !op.FixedID {
			o.body = document.WithID(o.body)
		}
	case opRead, opReplace, opDelete:
		var err error
		if o.id, err = t.linked(ctx, op.Link); err != nil {
			return err
		}
	default:
		return badf("%q is no operation", clip(op.Verb))
	}
	var r result
	if err := t.inTx(t.tx, t.k, &o, &r); err != nil {
		return err
	}
	if r.stored != nil {
		a.Resource = t.show(r.stored, r.meta.ID, r.meta.ETag)
	}
	return nil
}

// show returns a document as the script sees it.
func (t *scriptTx) show(stored []byte, id string, etag engine.ETag) []byte {
	t.ids[document.RIDOf(stored)] = id
	return t.k.appendItem(nil, stored, etag, 0)
}

// linked returns the id of the document to which a link leads: its _self, or its path by
// names.
func (t *scriptTx) linked(ctx context.Context, link string) (string, error) {
	link = strings.Trim(link, "/")
	name, ok := strings.CutPrefix(link, strings.Trim(t.k.self(), "/")+"/docs/")
	if !ok {
		name, ok = strings.CutPrefix(link, "dbs/"+t.k.record.Database+"/colls/"+t.k.record.Name+"/docs/")
	}
	if !ok {
		return "", badf("the link %q is not that of a document of the container", clip(link))
	}
	if id, ok := t.ids[name]; ok {
		return id, nil
	}
	switch _, err := t.tx.Read(name); {
	case err == nil:
		return name, nil
	case !errors.Is(err, engine.ErrNotFound):
		return "", err
	}
	if len(name) == resourceid.ItemChars && strings.HasSuffix(name, "==") {
		for it, err := range t.tx.Scan(engine.IDRange{}, nil) {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return "", err
			}
			if document.RIDOf(it.Body) == name {
				return it.ID, nil
			}
		}
	}
	if plain, err := url.PathUnescape(name); err == nil {
		return plain, nil
	}
	return name, nil
}

// query answers a query of a script over its logical partition as the transaction sees it.
// The documents are the elements of one array, over which the query is evaluated.
func (t *scriptTx) query(ctx context.Context, op *script.Operation, a *script.Answer) error {
	from := 0
	if op.Continuation != "" {
		n, err := strconv.Atoi(op.Continuation)
		if err != nil || n < 0 {
			return badf("the continuation %q is not what an answer gave", clip(op.Continuation))
		}
		from = n
	}
	size := op.PageSize
	switch {
	case size == 0:
		size = defaultPage
	case size < 0 || size > 10_000:
		size = 10_000
	}
	parameters := make(map[string]any, len(op.Parameters))
	for _, p := range op.Parameters {
		parameters[p.Name] = p.Value
	}
	tree, err := syntax.Parse(op.Query)
	if err == nil {
		tree, err = computed.PutIn(tree, op.Query, t.k.record.Definition.ComputedProperties)
	}
	if err == nil {
		tree, err = tree.Bind(op.Query, parameters)
	}
	if err != nil {
		return badf("query: %v", err)
	}
	var options eval.Options
	if namesFunction.MatchString(op.Query) {
		functions := t.functionsOf(t.k, op.Query)
		functions.session, functions.lent = t.session, true
		options.UDF = functions.named
	}
	// What is refused from clients is refused here.
	q, err := eval.Compile(op.Query, tree, options)
	if err == nil {
		q, err = eval.Compile(op.Query, statement.OverArray(tree), options)
	}
	if err != nil {
		return badf("query: %v", err)
	}
	var documents []value.Value
	held := 0
	for it, err := range t.tx.Scan(engine.IDRange{}, nil) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if held += len(it.Body); held > scanBytes {
			return failf(http.StatusRequestEntityTooLarge, "the query of the script looks at more than %d bytes of documents", scanBytes)
		}
		documents = append(documents, value.Parse(t.show(it.Body, it.ID, it.ETag)))
	}
	n, found := 0, 0
	body := []byte{'['}
	f := q.NewFrame(t.o.Clock(), t.o.Clock)
	f.SetContext(ctx)
	err = q.Run(f, value.Array(documents), func(v value.Value) bool {
		if n++; n <= from {
			return true
		}
		if found == size || len(body) > pageBytes {
			a.Continuation = strconv.Itoa(from + found)
			return false
		}
		if found++; found > 1 {
			body = append(body, ',')
		}
		body = v.Append(body)
		return true
	})
	if err != nil {
		return badf("query: %v", err)
	}
	a.Resource = append(body, ']')
	return nil
}
