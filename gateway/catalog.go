package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
	"github.com/cleavestore/cleave/gateway/internal/shared"
)

// catalogName is the container in which the catalogue is kept.
const catalogName = "_gateway"

// errDropped says that a container or database went away during a call.
var errDropped = errors.New("the resource does not exist any more")

// catalog is the durable list of databases and containers. Its records lie in one logical
// partition of a container of the store.
//
// A container of a database is there if its record and the container of the store both are. It
// is made by its record, which is durable first, and then by the container of the store, which
// is the commit point: until then nobody sees it. It is dropped in the opposite order: without the
// container of the store, which is dropped durably, the record says nothing. Open deletes such
// records, and drops the containers of a database whose record is "deleting". If a drop fails behind
// its commit point, the next call that makes something finishes it first, also if it is not
// known whether it came there. The catalogue never touches
// a container that no record names, so a store may have others.
//
// Numbers are given out once: the record with id "numbers" is raised in the batch that uses one.
type catalog struct {
	db       Store
	store    Items
	clock    func() time.Time
	pools    shared.Clock // of the throughput of databases
	throttle bool         // throughput is enforced

	// changing is held during changes of the catalogue, over their I/O. Readers do not take it.
	changing sync.Mutex
	// unfinished has the rest of each drop that failed behind its commit point. It is under changing.
	unfinished []func(context.Context) error

	mu      sync.RWMutex
	byName  map[string]*database
	numbers numbers
	// resources are scripts, users and permissions by their names, and byRID all of them by their resource ids.
	resources map[resourceSet]map[string]*child
	byRID     map[string]*child
	lease     uint64 // item numbers below it may be given out
}

// numbers is the record of the numbers that were given out.
type numbers struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Next  uint32 `json:"next"`  // of a database or container
	Items uint64 `json:"items"` // item numbers up to it may have been used
}

// database is a database. Fields but containers and offer do not change.
type database struct {
	record databaseRecord
	etag   engine.ETag

	containers map[string]*container // under catalog.mu
	pool       *shared.Pool          // its throughput; nil: it has none, or none is enforced
}

type databaseRecord struct {
	ID     string `json:"id"` // database/<name>
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Number uint32 `json:"number"`
	State  string `json:"state"`
	Made   int64  `json:"made"` // seconds
	Offer  *offer `json:"offer,omitempty"`
}

// container is a container of a database as of one moment: a change makes another one.
type container struct {
	record containerRecord
	etag   engine.ETag
	rid    string
	db     *database
	items  Items
	// mutable says that items follows the default time to live: an older build has not made it.
	mutable bool
	*topology
}

type containerRecord struct {
	ID         string              `json:"id"` // container/<database>/<name>
	Kind       string              `json:"kind"`
	Database   string              `json:"database"`
	Name       string              `json:"name"`
	Number     uint32              `json:"number"`
	State      string              `json:"state"`
	Store      string              `json:"store"` // name of the container of the store
	Made       int64               `json:"made"`  // seconds
	Definition containerProperties `json:"definition"`
	Offer      *offer              `json:"offer,omitempty"`
}

const (
	stateReady    = "ready"
	stateDeleting = "deleting"

	kindDatabase  = "database"
	kindContainer = "container"
	kindNumbers   = "numbers"
)

// itemLease is how many item numbers are taken at a time. Those that were not given out
// when a store is closed are lost: 54 bits last for millions of opens.
const itemLease = 1 << 32

var catalogKey = engine.StringKey("catalogue")

// openCatalog reads the catalogue, which it makes if there is none, and finishes what a
// crash left. Splits that throughput needs still begin again.
func openCatalog(ctx context.Context, db Store, o *Options) (*catalog, error) {
	store, err := db.EnsureContainer(ctx, catalogName, engine.ContainerDef{PartitionKey: []string{"/key"}})
	if err != nil {
		return nil, fmt.Errorf("gateway: catalogue: %w", err)
	}
	c := &catalog{db: db, store: store, clock: o.Clock, pools: shared.NewClock(o.Clock), throttle: o.Throttle, byName: map[string]*database{}, numbers: numbers{Next: 1},
		resources: map[resourceSet]map[string]*child{}, byRID: map[string]*child{}}
	var containers []*container
	for it, err := range store.Scan(ctx, catalogKey, engine.IDRange{}, nil) {
		if err != nil {
			return nil, fmt.Errorf("gateway: catalogue: %w", err)
		}
		var of struct{ Kind string }
		bad := json.Unmarshal(it.Body, &of)
		switch of.Kind {
		case kindNumbers:
			bad = json.Unmarshal(it.Body, &c.numbers)
			c.lease = c.numbers.Items
		case kindDatabase:
			d := &database{etag: it.ETag, containers: map[string]*container{}}
			bad = json.Unmarshal(it.Body, &d.record)
			d.pool = c.poolOf(&d.record, nil)
			c.byName[d.record.Name] = d
		case kindContainer:
			k := &container{etag: it.ETag}
			bad = json.Unmarshal(it.Body, &k.record)
			containers = append(containers, k)
		case kindResource:
			bad = c.addResource(it.Body, it.ETag)
		}
		if bad != nil {
			return nil, fmt.Errorf("gateway: record %q of the catalogue: %w", it.ID, bad)
		}
	}
	for _, k := range containers {
		d := c.byName[k.record.Database]
		if k.record.State != stateReady || d == nil || d.record.State != stateReady {
			if err = c.clear(ctx, &k.record); err != nil {
				return nil, err
			}
			continue
		}
		k.items, err = db.Container(ctx, k.record.Store, k.record.made(o.CreationOrder))
		if errors.Is(err, engine.ErrNoContainer) {
			if err = c.erase(ctx, k.record.ID); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("gateway: container %s of database %s: %w", k.record.Name, k.record.Database, err)
		}
		if err = c.conform(ctx, k, o); err != nil {
			return nil, fmt.Errorf("gateway: container %s of database %s: %w", k.record.Name, k.record.Database, err)
		}
		k.attach(d)
		d.containers[k.record.Name] = k
	}
	for name, d := range c.byName {
		if d.record.State != stateReady {
			if err = c.erase(ctx, d.record.ID); err != nil {
				return nil, err
			}
			delete(c.byName, name)
		}
	}
	if err = c.clearOrphans(ctx); err != nil {
		return nil, err
	}
	if !o.Throttle { // else the store splits
		for _, k := range containers {
			if k.topology != nil && k.record.Offer != nil {
				o.grow(k, k.record.Offer.Throughput)
			}
		}
	}
	return c, nil
}

// made returns the definition of the container of the store.
func (r *containerRecord) made(creationOrder bool) engine.ContainerDef {
	def, _ := r.Definition.engineDef(creationOrder) // it was checked
	return def
}

// conform makes the container of the store what the record and the options say: a crash can come
// between a change of the record and of the container, and the options can be others than before.
// The default time to live stays as the container has it, and the record gets it, with a new etag: to
// set it back could let items expire that live by the newer one.
func (c *catalog) conform(ctx context.Context, k *container, o *Options) (err error) {
	index, bad := k.record.Definition.index(o.CreationOrder)
	if bad != nil {
		return bad
	}
	perSecond := 0.0
	if given := k.record.Offer; given != nil && o.Throttle {
		perSecond = float64(given.Throughput)
	}
	now := k.items.Def()
	before := k.record.Definition.storedTTL()
	if now.MutableTTL {
		k.record.Definition.DefaultTTL = shownTTL(now.DefaultTTL)
	}
	if k.record.Definition.storedTTL() != before {
		if k.etag, err = c.put(ctx, &k.record); err != nil {
			return err
		}
	}
	if !slices.Equal(now.Index.Include, index.Include) || !slices.Equal(now.Index.Exclude, index.Exclude) ||
		!slices.EqualFunc(now.Index.Composite, index.Composite, slices.Equal) {
		if err = k.items.SetIndexPolicy(ctx, index); err != nil {
			return err
		}
	}
	if now.Throughput != perSecond {
		return k.items.SetThroughput(ctx, perSecond)
	}
	return nil
}

// attach fills in what follows from the record.
func (k *container) attach(d *database) {
	k.db = d
	k.rid = resourceid.Container(d.record.Number, k.record.Number)
	k.topology, k.mutable = &topology{}, k.items.Def().MutableTTL
}

// clear drops the container of a record that is not ready, and deletes the record.
func (c *catalog) clear(ctx context.Context, r *containerRecord) error {
	if err := c.db.DropContainer(ctx, r.Store); err != nil && !errors.Is(err, engine.ErrNoContainer) {
		return fmt.Errorf("gateway: container %s: %w", r.Store, err)
	}
	if err := c.erase(ctx, r.ID); err != nil {
		return err
	}
	return c.clearResources(ctx, func(set resourceSet) bool { return set.owner == r.Number })
}

// put writes records together and returns the etag of the last one. They are durable whatever the store's
// default is: the store makes and drops containers durably, and a record must not be older than what it names.
func (c *catalog) put(ctx context.Context, records ...any) (engine.ETag, error) {
	docs := make([][]byte, len(records))
	for i, record := range records {
		text, err := json.Marshal(record)
		if err != nil {
			return 0, err
		}
		docs[i] = append(text[:len(text)-1], `,"key":"catalogue"}`...)
	}
	written, err := c.store.UpsertAll(ctx, catalogKey, docs)
	if err == nil {
		return written[len(written)-1].ETag, nil
	}
	return 0, err
}

// erase deletes a record, if it is there. It need not be durable: the next open finishes what it finds.
func (c *catalog) erase(ctx context.Context, id string) error {
	err := c.store.Delete(ctx, catalogKey, id, &engine.WriteOptions{Durability: engine.Buffered})
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("gateway: catalogue: %w", err)
	}
	return nil
}

// number returns the numbers with Next-1 given out, which no database or container had. The caller holds
// changing, and writes them with putNew.
func (c *catalog) number() (*numbers, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.numbers.Next >= resourceid.MaxNumber {
		return nil, failf(403, "this account has made %d databases and containers, which is all it can", resourceid.MaxNumber)
	}
	return &numbers{kindNumbers, kindNumbers, c.numbers.Next + 1, c.lease}, nil
}

// putNew writes a record with the numbers that it has used.
func (c *catalog) putNew(ctx context.Context, n *numbers, record any) (engine.ETag, error) {
	// Whatever comes of it, the number was given out: a record with an unknown outcome may be there when the store is opened.
	c.mu.Lock()
	c.numbers.Next = n.Next
	c.mu.Unlock()
	return c.put(ctx, n, record)
}

// itemNumber returns a number that no item had.
func (c *catalog) itemNumber(ctx context.Context) (uint64, error) {
	c.mu.Lock()
	if c.numbers.Items < c.lease {
		defer c.mu.Unlock()
		c.numbers.Items++
		return c.numbers.Items, nil
	}
	c.mu.Unlock()
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.RLock()
	n, lease := c.numbers, c.lease
	c.mu.RUnlock()
	if n.Items >= lease {
		if n.Items > math.MaxUint64>>10-itemLease {
			return 0, failf(403, "all numbers of items are used up")
		}
		// The record has the end of the lease, which is the beginning of the next one.
		record := numbers{kindNumbers, kindNumbers, n.Next, n.Items + itemLease}
		if _, err := c.put(ctx, &record); err != nil {
			return 0, err
		}
		lease = record.Items
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease = lease
	c.numbers.Items++
	return c.numbers.Items, nil
}

// database returns a database by its name or resource id, nil if there is none.
func (c *catalog) database(name string) *database {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.databaseLocked(name)
}

func (c *catalog) databaseLocked(name string) *database {
	if d := c.byName[name]; d != nil {
		return d
	}
	if strings.HasSuffix(name, "==") {
		for _, d := range c.byName {
			if resourceid.Database(d.record.Number) == name {
				return d
			}
		}
	}
	return nil
}

// container returns a container by names or resource ids.
func (c *catalog) container(database, name string) (*container, *failure) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	d := c.databaseLocked(database)
	if d == nil {
		return nil, failf(404, "there is no database %q", clip(database)).withSub(subOwnerMissing)
	}
	if k := d.containers[name]; k != nil {
		return k, nil
	}
	if strings.HasSuffix(name, "=") {
		for _, k := range d.containers {
			if k.rid == name {
				return k, nil
			}
		}
	}
	return nil, failf(404, "database %q has no container %q", clip(database), clip(name)).withSub(subOwnerMissing)
}

// databases returns all databases by name.
func (c *catalog) databases() []*database {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(maps.Values(c.byName), func(a, b *database) int { return strings.Compare(a.record.Name, b.record.Name) })
}

// containersOf returns the containers of a database by name.
func (c *catalog) containersOf(d *database) []*container {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(maps.Values(d.containers), func(a, b *container) int { return strings.Compare(a.record.Name, b.record.Name) })
}

// checkName validates the name of a database or container.
func checkName(what, name string) *failure {
	if name == "" || len(name) > 255 {
		return badf("the id of a %s has %d bytes, between 1 and 255 are allowed", what, len(name))
	}
	if i := strings.IndexAny(name, "/\\#?"); i >= 0 {
		return badf("the id of a %s must not contain / \\ # or ?: %q does at byte %d", what, name, i)
	}
	if strings.HasSuffix(name, " ") || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7F || r == 0xFFFD }) {
		return badf("the id of a %s must not end with a blank or contain control characters: %q does", what, name)
	}
	return nil
}

func (c *catalog) createDatabase(ctx context.Context, name string, o *offer) (*database, error) {
	if bad := checkName(kindDatabase, name); bad != nil {
		return nil, bad
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	if err := c.finish(ctx); err != nil {
		return nil, err
	}
	if c.database(name) != nil {
		return nil, failf(409, "there is a database %q already", name)
	}
	n, err := c.number()
	if err != nil {
		return nil, err
	}
	d := &database{containers: map[string]*container{}, record: databaseRecord{
		ID: resourceid.DatabaseRecord(name), Kind: kindDatabase, Name: name, Number: n.Next - 1, State: stateReady, Made: c.clock().Unix(), Offer: o,
	}}
	if d.etag, err = c.putNew(ctx, n, &d.record); err != nil {
		return nil, err
	}
	d.pool = c.poolOf(&d.record, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName[name] = d
	return d, nil
}

// present returns a database as it is now, which another request may have changed meanwhile, if ifMatch is its etag. The
// caller holds changing.
func (c *catalog) present(d *database, ifMatch string) (*database, error) {
	now := c.database(d.record.Name)
	if now == nil || now.record.Number != d.record.Number {
		return nil, errDropped
	}
	return now, matches(ifMatch, now.etag)
}

// presentContainer is present for a container.
func (c *catalog) presentContainer(k *container, ifMatch string) (*container, error) {
	now, bad := c.container(k.db.record.Name, k.record.Name)
	if bad != nil || now.record.Number != k.record.Number {
		return nil, errDropped
	}
	return now, matches(ifMatch, now.etag)
}

// deleteDatabase drops a database with its containers. The commit point is its record.
func (c *catalog) deleteDatabase(ctx context.Context, d *database, ifMatch string) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	d, err := c.present(d, ifMatch)
	if err != nil {
		return err
	}
	r := d.record
	r.State = stateDeleting
	if _, err = c.put(ctx, &r); err != nil && !errors.Is(err, engine.ErrOutcomeUnknown) {
		return err
	}
	unknown := err != nil // the next open may drop the database: nobody may write to it any more
	c.mu.Lock()
	delete(c.byName, d.record.Name)
	c.mu.Unlock()
	return c.drop(ctx, func(ctx context.Context) error {
		if unknown {
			if _, err := c.put(ctx, &r); err != nil {
				return err
			}
		}
		for _, k := range c.containersOf(d) {
			if err := c.clear(ctx, &k.record); err != nil {
				return err
			}
		}
		if err := c.clearResources(ctx, func(set resourceSet) bool { return set.owner == r.Number }); err != nil {
			return err
		}
		return c.erase(ctx, r.ID)
	})
}

// drop carries out the rest of a drop behind its commit point, and remembers it if it fails. The
// caller holds changing.
func (c *catalog) drop(ctx context.Context, rest func(context.Context) error) error {
	err := rest(ctx)
	if err != nil {
		c.unfinished = append(c.unfinished, rest)
	}
	return err
}

// finish carries out what earlier drops have left. The caller holds changing.
func (c *catalog) finish(ctx context.Context) error {
	for len(c.unfinished) > 0 {
		if err := c.unfinished[0](ctx); err != nil {
			return err
		}
		c.unfinished = c.unfinished[1:]
	}
	return nil
}

func (c *catalog) createContainer(ctx context.Context, d *database, p *containerProperties, def engine.ContainerDef, o *offer) (*container, error) {
	if bad := checkName(kindContainer, p.ID); bad != nil {
		return nil, bad
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	d, err := c.present(d, "")
	if err == nil {
		err = c.finish(ctx)
	}
	if err != nil {
		return nil, err
	}
	c.mu.RLock()
	taken := d.containers[p.ID] != nil
	c.mu.RUnlock()
	if taken {
		return nil, failf(409, "database %q has a container %q already", d.record.Name, p.ID)
	}
	n, err := c.number()
	if err != nil {
		return nil, err
	}
	k := &container{record: containerRecord{
		ID: resourceid.ContainerRecord(d.record.Name, p.ID), Kind: kindContainer, Database: d.record.Name, Name: p.ID, Number: n.Next - 1,
		State: stateReady, Store: c.storeName(ctx, d.record.Name, p.ID, n.Next-1), Made: c.clock().Unix(), Definition: *p, Offer: o,
	}}
	if k.etag, err = c.putNew(ctx, n, &k.record); err != nil {
		return nil, err
	}
	if k.items, err = c.db.CreateContainer(ctx, k.record.Store, def); err != nil {
		// The record, and what the store may have made, are dropped now or when the catalogue is opened again. If the
		// store refused, this call has made nothing: a container of the name was made by another program, and stays.
		return nil, errors.Join(err, c.drop(context.WithoutCancel(ctx), func(ctx context.Context) error {
			switch failureOf(err).status {
			case http.StatusBadRequest, http.StatusConflict, http.StatusNotImplemented:
				return c.erase(ctx, k.record.ID)
			}
			return c.clear(ctx, &k.record)
		}))
	}
	k.attach(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	d.containers[p.ID] = k
	return k, nil
}

// storeName returns the name that a container has in the store: that of its database, a
// dot and its own, with its number if that is taken or too long.
func (c *catalog) storeName(ctx context.Context, database, name string, number uint32) string {
	const most = 200
	full := database + "." + name
	if _, err := c.db.Container(ctx, full, engine.ContainerDef{}); errors.Is(err, engine.ErrNoContainer) && len(full) <= most {
		return full
	}
	if len(full) > most {
		full = strings.ToValidUTF8(full[:most], "")
	}
	return fmt.Sprintf("%s~%d", full, number)
}

func (c *catalog) deleteContainer(ctx context.Context, k *container, ifMatch string) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	now, err := c.presentContainer(k, ifMatch)
	if err != nil {
		return err
	}
	show := func(k *container) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(now.db.containers, now.record.Name); k != nil {
			now.db.containers[now.record.Name] = k
		}
	}
	show(nil)
	if err := c.db.DropContainer(ctx, now.record.Store); err != nil && !errors.Is(err, engine.ErrNoContainer) {
		show(now) // nothing was dropped
		return err
	}
	return c.drop(ctx, func(ctx context.Context) error { return c.clear(ctx, &now.record) })
}

// changeContainer writes a container's record anew, as change leaves it, and returns the container with it. After an error, of
// change too, it calls what change has returned, which takes back what was changed in the store.
func (c *catalog) changeContainer(ctx context.Context, k *container, ifMatch string, change func(*containerRecord) (undo func() error, err error)) (*container, error) {
	c.changing.Lock()
	defer c.changing.Unlock()
	now, err := c.presentContainer(k, ifMatch)
	if err != nil {
		return nil, err
	}
	next := *now
	undo, err := change(&next.record)
	if err == nil {
		next.etag, err = c.put(ctx, &next.record)
	}
	if err != nil && undo != nil {
		err = errors.Join(err, undo())
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.db.containers[next.record.Name] = &next
	return &next, nil
}

// changeDatabase is changeContainer for a database.
func (c *catalog) changeDatabase(ctx context.Context, d *database, ifMatch string, change func(*databaseRecord) error) (*database, error) {
	c.changing.Lock()
	defer c.changing.Unlock()
	d, err := c.present(d, ifMatch)
	if err != nil {
		return nil, err
	}
	r := d.record
	if err = change(&r); err != nil {
		return nil, err
	}
	etag, err := c.put(ctx, &r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &database{record: r, etag: etag, containers: d.containers, pool: c.poolOf(&r, d.pool)}
	c.byName[r.Name] = next
	for _, k := range next.containers {
		moved := *k
		moved.db = next
		next.containers[k.record.Name] = &moved
	}
	return next, nil
}

// poolOf returns the pool of a database, nil if none is enforced. It goes on where before was.
func (c *catalog) poolOf(r *databaseRecord, before *shared.Pool) *shared.Pool {
	if r.Offer == nil || !c.throttle {
		return nil
	}
	return shared.New(c.pools, float64(r.Offer.Throughput), before)
}
