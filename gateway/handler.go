package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/activity"
	"github.com/cleavestore/cleave/gateway/internal/budget"
	"github.com/cleavestore/cleave/gateway/internal/recent"
	"github.com/cleavestore/cleave/gateway/internal/script"
	"github.com/cleavestore/cleave/gateway/internal/sessiontoken"
	"github.com/cleavestore/cleave/gateway/internal/shared"
	"github.com/cleavestore/cleave/gateway/internal/signature"
	"github.com/cleavestore/cleave/gateway/internal/unread"
)

// Options configure a Handler. The zero value is usable; New works on a copy.
type Options struct {
	// Key is the master key, in base64, with which requests are signed. "": EmulatorKey,
	// which everybody knows.
	Key string
	// Endpoint is the address that clients are told to use, such as "https://db.test:8081/".
	// A host alone, such as "db.test", stands for that host with the scheme and port to which
	// the request was sent. "": the address to which it was sent.
	Endpoint string
	// Region is the name of the only region. "": "Local".
	Region string
	// Consistency is the default consistency level that clients are told: Strong,
	// BoundedStaleness, Session, ConsistentPrefix or Eventual. Reads of an engine.DB are strong
	// whatever it says. "": Session.
	Consistency string
	// Throttle enforces provisioned throughput: calls beyond it are answered 429. Without it
	// throughput decides only how many physical partitions a container begins with.
	Throttle bool
	// LiberalQueries also answers queries over several logical partitions that the service
	// leaves to its clients, with ORDER BY, DISTINCT, aggregates and the like.
	LiberalQueries bool
	// KeyOrder gives the results of queries without ORDER BY in the order of the key space.
	// Without it containers of at most 10,000 documents give them in the order of creation.
	KeyOrder bool
	// CreationOrder gives the results of queries without ORDER BY in the order of creation,
	// however many documents a container has. Containers have an index for it, which those that
	// were made without CreationOrder get when New returns. It excludes KeyOrder.
	CreationOrder bool
	// MemoryBytes bounds what the bodies of requests under way may take, and what the answers may that clients have not
	// read: beyond it requests are answered 503. 0: 256 MiB.
	MemoryBytes int64
	// Clock tells the time: that of the signatures of requests too, unless SignatureClock does.
	// nil: time.Now.
	Clock func() time.Time
	// SignatureClock tells the time by which the dates of signed requests are judged. nil: Clock.
	SignatureClock func() time.Time
	// Before is called for each request that has a valid signature, before it is carried out. It may
	// wait. An error, or a Fault that is not nil, is answered in its place. It is called
	// concurrently. nil: nobody is asked.
	Before func(context.Context, Operation) (*Fault, error)
	// Logger is told of answers with status 500 and above. nil: silent.
	Logger *slog.Logger
}

// Handler serves the protocol. It is safe for concurrent use.
type Handler struct {
	o  Options
	db Store
	// sessions, if not nil, makes the session tokens of the store.
	sessions Sessions
	catalog  *catalog
	auth     *signature.Key
	bodies   *budget.Budget
	answers  *unread.Answers
	queries  *budget.Budget // counts queries
	scripts  *script.Pool
	quirks   bool
	shared   *counters
	// planning, if not nil, is called while a plan is made: tests split a partition then.
	planning func()
	recent   *recent.Continuations
}

// counters are shared by a handler and its variant with quirks.
type counters struct {
	newest   atomic.Uint64 // sequence of a write that was acknowledged
	activity *activity.IDs
}

const defaultMemory = 256 << 20

// New returns a handler that serves the store. It reads the catalogue of databases, which
// it makes in an empty store, and finishes what a crash has left there. The store stays the
// caller's: close it when no request is under way any more.
func New(ctx context.Context, db *engine.DB, options *Options) (*Handler, error) {
	return Over(ctx, local{db}, options)
}

// Over is New for another store than an engine.DB. The handler has the catalogue for itself: a Store that
// several processes can reach sees to it that only one of them changes it.
func Over(ctx context.Context, db Store, options *Options) (*Handler, error) {
	h := &Handler{db: db, shared: &counters{activity: activity.New()}, recent: &recent.Continuations{}}
	h.sessions, _ = db.(Sessions)
	if options != nil {
		h.o = *options
	}
	if h.o.Clock == nil {
		h.o.Clock = time.Now
	}
	if h.o.Key == "" {
		h.o.Key = EmulatorKey
	}
	if h.o.Region == "" {
		h.o.Region = "Local"
	}
	switch h.o.Consistency {
	case "":
		h.o.Consistency = "Session"
	case "Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual":
	default:
		return nil, fmt.Errorf("gateway: consistency %q is not known", h.o.Consistency)
	}
	if h.o.KeyOrder && h.o.CreationOrder {
		return nil, errors.New("gateway: KeyOrder and CreationOrder exclude each other")
	}
	if h.o.MemoryBytes == 0 {
		h.o.MemoryBytes = defaultMemory
	}
	if h.o.Logger == nil {
		h.o.Logger = slog.New(slog.DiscardHandler)
	}
	h.scripts = script.NewPool(scriptPlaces, script.DefaultLimits)
	memory := max(h.o.MemoryBytes, maxBody)
	h.bodies, h.answers = budget.New(memory), unread.NewAnswers(memory)
	h.queries = budget.New(queryPlaces())
	var err error
	if h.o.SignatureClock == nil {
		h.o.SignatureClock = h.o.Clock
	}
	if h.auth, err = signature.New(h.o.Key, h.o.SignatureClock); err != nil {
		return nil, err
	}
	if h.catalog, err = openCatalog(ctx, db, &h.o); err != nil {
		return nil, err
	}
	h.shared.newest.Store(db.LastSeq())
	return h, nil
}

// Other returns a handler of another store with the same options. It goes on where h is with
// the sequences of session tokens, so that they do not fall for clients of both. Call it when no
// request of h is under way any more.
func (h *Handler) Other(ctx context.Context, db *engine.DB) (*Handler, error) {
	o := h.o
	next, err := New(ctx, db, &o)
	if err != nil {
		return nil, err
	}
	if newest := h.shared.newest.Load(); newest > next.shared.newest.Load() {
		next.shared.newest.Store(newest)
	}
	next.quirks = h.quirks
	return next, nil
}

// WithQuirks returns a handler of the same store that refuses some item ids in paths, as
// the service does on its older front end: 401 for ids that end with a blank or contain
// / \ # or %, 400 for those with control characters.
func (h *Handler) WithQuirks() *Handler {
	quirky := *h
	quirky.quirks = true
	return &quirky
}

// Sizes of bodies, which are bounded before they are read.
const (
	maxBody      = 4 << 20   // of documents and batches
	maxQueryBody = 2 << 20   // of queries: the text and its parameters
	maxMetaBody  = 512 << 10 // of definitions
)

// call is one request under way.
type call struct {
	*Handler
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	begun  time.Time
	path   []string // decoded segments
	raw    string   // the path as it came, with what stands behind a ?
	charge float64
	held   int64 // bytes of the budget

	pool      *shared.Pool         // the throughput to which the request was admitted; nil: none that is shared
	seen      []sessiontoken.Entry // what the session token says, if the level asks for it
	functions *functions           // user-defined ones of a query; nil: it has none
	// values has the values of headers that set has set.
	values [18]string
	count  int
	// instead, if not nil, is answered in the place of the outcome.
	instead *failure
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Handler: h, w: w, r: r, ctx: r.Context(), begun: time.Now()}
	c.set("X-Ms-Activity-Id", h.shared.activity.Of(r))
	c.set("X-Ms-Gatewayversion", "version=2.0.0")
	c.set("X-Ms-Serviceversion", "version=2.0.0.0")
	c.set("X-Ms-Schemaversion", "1.18")
	defer func() {
		c.functions.end()
		c.pool.Charge(c.charge)
		h.bodies.Give(c.held)
	}()
	if err := c.serve(); err != nil {
		c.fail(err)
	}
}

// set sets a header of the answer. The name is in its canonical form: http.Header.Set would make
// a string of it each time, and a slice for the value.
func (c *call) set(name, value string) {
	if c.count == len(c.values) {
		c.w.Header()[name] = []string{value}
		return
	}
	c.values[c.count] = value
	c.count++
	c.w.Header()[name] = c.values[c.count-1 : c.count : c.count]
}

// resource is what a path leads to.
type resource struct {
	kind string // as signatures name it
	link string // of the resource; of a feed, that of its owner
	feed bool
}

// Types of resources, which are the names of feeds.
const (
	typeDatabases  = "dbs"
	typeContainers = "colls"
	typeItems      = "docs"
	typeRanges     = "pkranges"
	typeOffers     = "offers"
	typeKeys       = "partitionkey"
)

// operations is the part of a path behind which an operation on a partition key stands, and
// deleteKey the one that there is.
const (
	operations = "operations"
	deleteKey  = "partitionkeydelete"
)

// maxPath bounds a path: two names of 255 characters and an id of 1,023 bytes, escaped.
const maxPath = 16 << 10

// split takes the path apart.
func (c *call) split() *failure {
	raw := strings.TrimPrefix(c.r.URL.EscapedPath(), "/")
	if u := c.r.URL; (u.RawQuery != "" || u.ForceQuery) && strings.Count(raw, "/") >= 5 {
		// The protocol has no queries of URLs: a client has left a ? of the id of an item as it is, perhaps its first character.
		raw += "?" + strings.ReplaceAll(u.RawQuery, "/", "%2F")
	}
	if len(raw) > maxPath {
		return badf("the path has %d bytes, at most %d are read", len(raw), maxPath)
	}
	raw = strings.TrimSuffix(raw, "/")
	c.raw = raw
	if raw == "" {
		return nil
	}
	for segment := range strings.SplitSeq(raw, "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return badf("the path %q is not escaped as a URL", clip(raw))
		}
		if plain == "" {
			return badf("the path %q has an empty segment", clip(raw))
		}
		c.path = append(c.path, plain)
	}
	return nil
}

// resource returns what the path leads to: pairs of a type and a name, and a type alone
// for a feed.
func (c *call) resource() resource {
	n := len(c.path)
	switch {
	case n == 0:
		return resource{}
	case n%2 == 1:
		return resource{kind: c.path[n-1], link: strings.Join(c.path[:n-1], "/"), feed: true}
	}
	if n == 6 && c.path[4] == operations {
		return resource{kind: typeKeys, link: strings.Join(c.path[:4], "/"), feed: true}
	}
	return resource{kind: c.path[n-2], link: strings.Join(c.path, "/")}
}

// authorize checks the signature of the request.
func (c *call) authorize(res resource) *failure {
	if c.quirks && res.kind == typeItems && !res.feed {
		switch id := c.path[len(c.path)-1]; {
		case strings.ContainsAny(id, "\t\r\n"):
			// That front end never sees the request: the HTTP server before it answers.
			bad := badf("%s", "<!DOCTYPE html>\n<title>Bad Request</title>\n<p>The URL is invalid.\n")
			bad.page = true
			return bad
		case strings.HasSuffix(id, " ") || strings.ContainsAny(id, `/\#%`):
			return unauthorized("the id %q cannot be signed at this endpoint", id)
		}
	}
	links := []string{res.link}
	if low := strings.ToLower(res.link); low != res.link {
		links = append(links, low)
	}
	if res.kind == typeOffers && !res.feed {
		// An offer is signed by its resource id alone.
		links = append(links, strings.ToLower(c.path[len(c.path)-1]), c.path[len(c.path)-1])
	}
	if !res.feed && c.raw != res.link {
		links = append(links, c.raw)
	}
	if kind, sig, bad := signature.Parse(c.r.Header.Get("Authorization")); bad == nil && kind == "resource" {
		return c.permitted(sig)
	}
	if res.kind == typeKeys {
		// An operation on a partition key is signed as one on the container.
		return refused(c.auth.Check(c.r, typeContainers, links...))
	}
	return refused(c.auth.Check(c.r, res.kind, links...))
}

func (c *call) serve() error {
	if bad := c.split(); bad != nil {
		unread.HangUp(c.w, c.r)
		return bad
	}
	res := c.resource()
	if bad := c.authorize(res); bad != nil {
		unread.HangUp(c.w, c.r)
		return bad
	}
	if bad := c.answerable(); bad != nil {
		unread.HangUp(c.w, c.r)
		return bad
	}
	if err := c.before(res); err != nil {
		return err
	}
	if len(c.path) == 0 {
		return c.only(map[string]func() error{http.MethodGet: c.account})
	}
	p := c.path
	switch {
	case p[0] == typeOffers && len(p) == 1:
		return c.only(map[string]func() error{http.MethodGet: c.listOffers, http.MethodPost: c.listOffers})
	case p[0] == typeOffers && len(p) == 2:
		return c.only(map[string]func() error{http.MethodGet: c.readOffer, http.MethodPut: c.replaceOffer})
	case p[0] != typeDatabases:
		return c.unknown()
	case len(p) == 1:
		return c.only(map[string]func() error{http.MethodGet: c.listDatabases, http.MethodPost: c.postDatabases})
	case len(p) == 2:
		return c.only(map[string]func() error{http.MethodGet: c.readDatabase, http.MethodDelete: c.deleteDatabase})
	case p[2] == kindUser:
		return c.users()
	case p[2] != typeContainers:
		return c.unknown()
	case len(p) == 3:
		return c.only(map[string]func() error{http.MethodGet: c.listContainers, http.MethodPost: c.postContainers})
	}
	k, bad := c.catalog.container(p[1], p[3])
	if bad != nil {
		return bad
	}
	if err := c.beginSession(res); err != nil {
		return err
	}
	if len(p) > 4 && (p[4] == typeItems || len(p) == 6 && c.r.Method == http.MethodPost) {
		if bad := c.admit(k); bad != nil {
			return bad
		}
	}
	with := func(f func(*container) error) func() error { return func() error { return f(k) } }
	switch {
	case len(p) == 4:
		return c.only(map[string]func() error{
			http.MethodGet: with(c.readContainer), http.MethodPut: with(c.replaceContainer), http.MethodDelete: with(c.deleteContainer),
		})
	case p[4] == typeRanges && len(p) == 5:
		return c.only(map[string]func() error{http.MethodGet: with(c.listRanges)})
	case p[4] == typeItems && len(p) == 5:
		return c.only(map[string]func() error{http.MethodGet: with(c.feedItems), http.MethodPost: with(c.postItems)})
	case p[4] == typeItems && len(p) == 6:
		if c.r.Method == http.MethodGet { // the most frequent one, without the table of methods
			return c.readItem(k)
		}
		return c.only(map[string]func() error{
			http.MethodPut: with(c.replaceItem), http.MethodPatch: with(c.patchItem),
			http.MethodDelete: with(c.deleteItem),
		})
	}
	switch p[4] {
	case operations:
		if len(p) != 6 || p[5] != deleteKey {
			return c.unknown()
		}
		return c.only(map[string]func() error{http.MethodPost: with(c.deleteKey)})
	case kindProcedure, kindTrigger, kindFunction:
		if len(p) > 6 {
			return c.unknown()
		}
		if p[4] == kindProcedure && len(p) == 6 && c.r.Method == http.MethodPost {
			return c.executeProcedure(k, p[5])
		}
		return c.children(c.ofContainer(k, p[4]), p[5:])
	case "conflicts":
		// With one region that writes there are none.
		if len(p) > 5 {
			return failf(http.StatusNotFound, "container %q has no conflict %q", k.record.Name, clip(p[5]))
		}
		return c.only(map[string]func() error{http.MethodGet: with(c.noConflicts), http.MethodPost: with(c.noConflicts)})
	}
	return c.unknown()
}

func (c *call) unknown() *failure {
	return failf(http.StatusNotFound, "there is no resource at the path %q", clip(c.r.URL.EscapedPath()))
}

// only calls the function for the method of the request.
func (c *call) only(methods map[string]func() error) error {
	f := methods[c.r.Method]
	if f == nil {
		return failf(http.StatusMethodNotAllowed, "the method %s is not possible for %q", clip(c.r.Method), clip(c.r.URL.EscapedPath()))
	}
	return f()
}

// body reads the body of the request, at most limit bytes. Memory for it is taken from
// the budget first, and given back when the request ends.
func (c *call) body(limit int64) ([]byte, error) {
	size := c.r.ContentLength
	if size > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	if size < 0 {
		size = limit
	}
	if err := c.bodies.Take(c.ctx, size); err != nil {
		return nil, failf(http.StatusServiceUnavailable, "the bodies of other requests take all memory that they may have: %v", err)
	}
	c.held += size
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, badf("the body ends early: %v", err)
	}
	return b, nil
}

// fail answers with an error.
func (c *call) fail(err error) {
	f := failureOf(err)
	head := c.w.Header()
	if f.sub != 0 {
		head.Set("x-ms-substatus", strconv.Itoa(f.sub))
	}
	if f.status == http.StatusTooManyRequests || f.retry > 0 {
		head.Set("x-ms-retry-after-ms", strconv.FormatInt(f.retryMillis(), 10))
	}
	if f.status >= http.StatusInternalServerError && f.status != http.StatusNotImplemented {
		c.o.Logger.Error("request failed", "method", c.r.Method, "path", clip(c.r.URL.EscapedPath()), "status", f.status, "error", f.msg)
	}
	if f.status == http.StatusNotModified {
		c.answer(f.status, nil)
		return
	}
	if f.page {
		c.set("Content-Type", "text/html; charset=us-ascii")
		c.answer(f.status, []byte(f.msg))
		return
	}
	body := map[string]string{"code": f.code(), "message": f.msg}
	if f.extra != "" {
		body["additionalErrorInfo"] = f.extra
	}
	text, _ := json.Marshal(body)
	c.answer(f.status, text)
}

// answerable refuses a request while the answers that clients leave unread take all memory that they may.
func (c *call) answerable() *failure {
	if !c.answers.Full() {
		return nil
	}
	bad := failf(http.StatusServiceUnavailable, "answers that other clients have not read take all memory that they may")
	bad.retry = time.Second
	return bad
}

// answer writes the response. A client that reads it slowly holds no place of functions, and no memory for what it has sent.
func (c *call) answer(status int, body []byte) {
	c.functions.end()
	if c.instead != nil {
		c.conceal()
		return
	}
	if c.sessions != nil {
		if token := c.sessions.Token(c.ctx); token != "" {
			c.w.Header()["X-Ms-Session-Token"] = []string{token}
		}
	}
	c.set("X-Ms-Request-Charge", strconv.FormatFloat(c.charge, 'f', 2, 64))
	c.set("X-Ms-Request-Duration-Ms", strconv.FormatFloat(float64(time.Since(c.begun).Microseconds())/1000, 'f', 3, 64))
	if body != nil && c.w.Header()["Content-Type"] == nil {
		c.set("Content-Type", "application/json")
	}
	if status != http.StatusNoContent && status != http.StatusNotModified {
		c.set("Content-Length", strconv.Itoa(len(body)))
	}
	c.w.WriteHeader(status)
	c.bodies.Give(c.held)
	if c.held = 0; c.r.Method != http.MethodHead {
		c.answers.Write(c.w, body)
	}
}

// answerJSON writes a value as the response.
func (c *call) answerJSON(status int, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	c.answer(status, text)
	return nil
}

// metaCharge is what calls on databases, containers and offers are charged.
const metaCharge = 1

// account answers GET /.
func (c *call) account() error {
	c.charge = 0
	endpoint := c.o.Endpoint
	if !strings.Contains(endpoint, "://") {
		scheme, host := "http", c.r.Host
		if c.r.TLS != nil {
			scheme = "https"
		}
		if _, port, err := net.SplitHostPort(host); endpoint != "" && err == nil {
			host = net.JoinHostPort(endpoint, port)
		} else if endpoint != "" {
			host = endpoint
		}
		endpoint = scheme + "://" + host + "/"
	}
	place := []map[string]string{{"name": c.o.Region, "databaseAccountEndpoint": endpoint}}
	return c.answerJSON(http.StatusOK, map[string]any{
		"_self": "", "id": "cleave", "_rid": "cleave.local", "media": "//media/", "addresses": "//addresses/", "_dbs": "//dbs/",
		"writableLocations": place, "readableLocations": place, "enableMultipleWriteLocations": false,
		"enablePerPartitionFailoverBehavior": false, "continuousBackupEnabled": false,
		"userReplicationPolicy":   map[string]any{"asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": 1},
		"userConsistencyPolicy":   map[string]any{"defaultConsistencyLevel": c.o.Consistency},
		"systemReplicationPolicy": map[string]any{"minReplicaSetSize": 1, "maxReplicasetSize": 1},
		"readPolicy":              map[string]any{"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
		"queryEngineConfiguration": `{"maxSqlQueryInputLength":524288,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,` +
			`"maxLogicalOrPerSqlQuery":2000,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,` +
			`"queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,` +
			`"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,` +
			`"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,` +
			`"sqlDisableOptimizationFlags":0,"sqlAllowTop":true,"enableSpatialIndexing":false}`,
	})
}
