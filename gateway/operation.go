package gateway

import (
	"context"
	"net/http"
	"time"
)

// Operation is a request under way, as Options.Before gets it.
type Operation struct {
	// Kind is what the request does: see Kinds.
	Kind string
	// Database and Container are names; "": the request is about none.
	Database, Container string
	// Range is the id of the physical partition that the request names, "" if it names none.
	Range string
}

// Kinds returns the kinds of operations: account, database, container, offer, ranges,
// create, upsert, replace, patch, delete, read, query, plan, batch, bulk, feed, which is the
// change feed, list, which is all items in pages, and script. Users and permissions count as database.
func Kinds() []string {
	return []string{
		kindAccount, kindDatabase, kindContainer, kindOffer, kindRanges, opCreate, opUpsert, opReplace, opPatch, opDelete, opRead,
		kindQuery, kindPlan, kindBatch, kindBulk, kindFeed, kindList, kindScript,
	}
}

const (
	kindAccount = "account"
	kindOffer   = "offer"
	kindRanges  = "ranges"
	kindQuery   = "query"
	kindPlan    = "plan"
	kindBatch   = "batch"
	kindBulk    = "bulk"
	kindFeed    = "feed"
	kindList    = "list"
	kindScript  = "script"
)

// Fault is an answer in the place of that of an operation. As an error of a Store it is the answer to the call.
type Fault struct {
	// Status and SubStatus are those of the answer. A Status of 410 answers only requests that
	// name a physical partition; others are carried out.
	Status, SubStatus int
	// RetryAfter is what the answer says, with status 429 also if it is 0.
	RetryAfter time.Duration
	// Message is the text of the answer.
	Message string
	// After: the operation is carried out first, and the client is not told of its outcome.
	After bool
}

// Error implements error.
func (f *Fault) Error() string { return f.failure().Error() }

func (f *Fault) failure() *failure {
	return &failure{status: f.Status, sub: f.SubStatus, msg: f.Message, retry: f.RetryAfter}
}

// operation returns what the request is.
func (c *call) operation(res resource) Operation {
	o := Operation{Kind: c.kind(res), Range: c.r.Header.Get("X-Ms-Documentdb-Partitionkeyrangeid")}
	if p := c.path; len(p) >= 2 && p[0] == typeDatabases {
		o.Database = p[1]
		if d := c.catalog.database(p[1]); d != nil {
			o.Database = d.record.Name
		}
		if len(p) >= 4 && p[2] == typeContainers {
			o.Container = p[3]
			if k, bad := c.catalog.container(p[1], p[3]); bad == nil {
				o.Container = k.record.Name
			}
		}
	}
	return o
}

func (c *call) kind(res resource) string {
	h := c.r.Header
	switch res.kind {
	case "":
		return kindAccount
	case typeDatabases, "users", "permissions":
		return kindDatabase
	case typeContainers:
		return kindContainer
	case typeOffers:
		return kindOffer
	case typeRanges:
		return kindRanges
	case typeKeys:
		return opDelete
	case typeItems:
	default:
		return kindScript
	}
	switch m := c.r.Method; {
	case m == http.MethodGet && !res.feed:
		return opRead
	case m == http.MethodGet && h.Get("A-Im") != "":
		return kindFeed
	case m == http.MethodGet:
		return kindList
	case m == http.MethodPut:
		return opReplace
	case m == http.MethodPatch:
		return opPatch
	case m == http.MethodDelete:
		return opDelete
	}
	return c.posted()
}

// posted returns the kind of a request that posts to items. Permissions and the answer go by it alike.
func (c *call) posted() string {
	switch h := c.r.Header; {
	case isTrue(h.Get("X-Ms-Cosmos-Is-Query-Plan-Request")):
		return kindPlan
	case isTrue(h.Get("X-Ms-Cosmos-Is-Batch-Request")) && isTrue(h.Get("X-Ms-Cosmos-Batch-Atomic")):
		return kindBatch
	case isTrue(h.Get("X-Ms-Cosmos-Is-Batch-Request")):
		return kindBulk
	case c.isQuery():
		return kindQuery
	case isTrue(h.Get("X-Ms-Documentdb-Is-Upsert")):
		return opUpsert
	}
	return opCreate
}

// before asks Options.Before about the request. An error is the answer to it.
func (c *call) before(res resource) error {
	if c.o.Before == nil {
		return nil
	}
	o := c.operation(res)
	f, err := c.o.Before(c.ctx, o)
	if err != nil {
		return err
	}
	if f == nil || f.Status == http.StatusGone && o.Range == "" {
		return nil
	}
	bad := f.failure()
	if f.After {
		c.instead = bad
		return nil
	}
	return bad
}

// conceal answers with c.instead, and keeps nothing of the answer that there would be.
func (c *call) conceal() {
	bad := c.instead
	c.instead = nil
	head := c.w.Header()
	for name := range head {
		switch name {
		case "X-Ms-Activity-Id", "X-Ms-Gatewayversion", "X-Ms-Serviceversion", "X-Ms-Schemaversion":
		default:
			head.Del(name)
		}
	}
	c.fail(bad)
}

// ContainerInfo describes a container of a database.
type ContainerInfo struct {
	Database, Name string
	// Store is the name of the container of the store.
	Store string
	// Throughput is the provisioned throughput, or with Autoscale the most, in RU/s; 0: none
	// of its own.
	Throughput int
	Autoscale  bool
}

// Containers returns all containers by database and name.
func (h *Handler) Containers() []ContainerInfo {
	var all []ContainerInfo
	for _, d := range h.catalog.databases() {
		for _, k := range h.catalog.containersOf(d) {
			all = append(all, k.info())
		}
	}
	return all
}

func (k *container) info() ContainerInfo {
	i := ContainerInfo{Database: k.record.Database, Name: k.record.Name, Store: k.record.Store}
	if o := k.record.Offer; o != nil {
		i.Throughput, i.Autoscale = o.Throughput, o.Autoscale
	}
	return i
}

// Container returns a container by names. Its error has the status 404: see StatusOf.
func (h *Handler) Container(database, name string) (ContainerInfo, error) {
	k, bad := h.catalog.container(database, name)
	if bad != nil {
		return ContainerInfo{}, bad
	}
	return k.info(), nil
}

// SetThroughput gives a container provisioned throughput of its own, in RU/s, as a client
// does that replaces its offer.
func (h *Handler) SetThroughput(ctx context.Context, database, name string, perSecond int) error {
	k, bad := h.catalog.container(database, name)
	if bad != nil {
		return bad
	}
	_, err := h.setOffer(ctx, k, "", &offer{Throughput: perSecond})
	return err
}

// setOffer gives a container throughput and returns the container with it.
func (h *Handler) setOffer(ctx context.Context, k *container, ifMatch string, next *offer) (*container, error) {
	ctx = context.WithoutCancel(ctx)
	return h.catalog.changeContainer(ctx, k, ifMatch, func(r *containerRecord) (func() error, error) {
		before := r.Offer
		if err := replace(&r.Offer, next); err != nil {
			return nil, err
		}
		return func() error { return h.provision(ctx, k, before) }, h.provision(ctx, k, next)
	})
}

// StatusOf returns the status and sub-status that stand for an error of a method of Handler;
// a sub-status of 0 is none.
func StatusOf(err error) (status, sub int) {
	f := failureOf(err)
	return f.status, f.sub
}

// admit returns the refusal of a request on items if the throughput that is shared is consumed.
func (c *call) admit(k *container) *failure {
	if k.record.Offer != nil {
		return nil
	}
	if wait := k.db.pool.Admit(); wait > 0 {
		bad := failf(http.StatusTooManyRequests, "request rate is too large for the throughput that the containers of the database share; retry after %v", wait)
		bad.retry = wait
		return bad.withSub(subRequestRateLimit)
	}
	c.pool = k.db.pool
	return nil
}
