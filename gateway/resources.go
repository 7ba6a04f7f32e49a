package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/condition"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/jsonfault"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
)

// A container has stored procedures, triggers and user-defined functions; a database has
// users, and these have permissions. Each is a record of the catalogue with the definition
// as the client sent it.

// Kinds of resources, which are the names of their feeds.
const (
	kindProcedure  = "sprocs"
	kindTrigger    = "triggers"
	kindFunction   = "udfs"
	kindUser       = "users"
	kindPermission = "permissions"
)

// feedNames are the members of feeds that have the resources of a kind.
var feedNames = map[string]string{
	kindProcedure: "StoredProcedures", kindTrigger: "Triggers", kindFunction: "UserDefinedFunctions",
	kindUser: "Users", kindPermission: "Permissions", "conflicts": "Conflicts",
}

// resourceSet is the resources of one kind that belong to the same owner.
type resourceSet struct {
	owner  uint32 // number of the database or container
	parent string // resource id of the user, of permissions; "" else
	kind   string
}

// child is a resource as of one moment: a change makes another one.
type child struct {
	record resourceRecord
	etag   engine.ETag
}

type resourceRecord struct {
	ID         string          `json:"id"` // resource~<rid>
	Kind       string          `json:"kind"`
	Owner      uint32          `json:"owner"`
	Parent     string          `json:"parent,omitempty"`
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	RID        string          `json:"rid"`
	Made       int64           `json:"made"` // seconds
	Definition json.RawMessage `json:"definition"`
	// Container is the resource id of the container that a permission is for, noContainer if there was none; "": an older build has made it.
	Container string `json:"container,omitempty"`
}

const kindResource = "resource"

func (r *resourceRecord) set() resourceSet { return resourceSet{r.Owner, r.Parent, r.Type} }

// maxResources is how many resources of a kind an owner has, and maxResourceBytes how many bytes their definitions have together:
// all are in memory, and a list of them is made of all.
const (
	maxResources     = 1000
	maxResourceBytes = 16 << 20
)

// addResource notes a record that was read when the catalogue was opened.
func (c *catalog) addResource(text []byte, etag engine.ETag) error {
	r := &child{etag: etag}
	if err := json.Unmarshal(text, &r.record); err != nil {
		return err
	}
	c.keepResource(r)
	return nil
}

// keepResource makes a resource visible. The caller holds mu, or is alone.
func (c *catalog) keepResource(r *child) {
	set := r.record.set()
	if c.resources[set] == nil {
		c.resources[set] = make(map[string]*child)
	}
	c.resources[set][r.record.Name], c.byRID[r.record.RID] = r, r
}

// resource returns a resource by its name or resource id, nil if there is none.
func (c *catalog) resource(set resourceSet, name string) *child {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.resources[set][name]; r != nil {
		return r
	}
	if r := c.byRID[name]; r != nil && r.record.set() == set {
		return r
	}
	return nil
}

// ofRID returns a resource by its resource id, nil if there is none. Another one may have that as its name.
func (c *catalog) ofRID(rid string) *child {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byRID[rid]
}

// resourcesOf returns the resources of a set by name.
func (c *catalog) resourcesOf(set resourceSet) []*child {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(maps.Values(c.resources[set]), func(a, b *child) int { return strings.Compare(a.record.Name, b.record.Name) })
}

// presentResource is present for a resource.
func (c *catalog) presentResource(r *child, ifMatch string) (*child, error) {
	now := c.ofRID(r.record.RID)
	if now == nil {
		return nil, errDropped
	}
	return now, matches(ifMatch, now.etag)
}

// putResource makes a resource, or with old writes it anew. alive says whether its owner is
// still there.
func (c *catalog) putResource(ctx context.Context, r resourceRecord, old *child, ifMatch string, alive func() bool) (*child, error) {
	if bad := checkName("resource of "+r.Type, r.Name); bad != nil {
		return nil, bad
	}
	if r.RID == "" {
		n, err := c.itemNumber(ctx)
		if err != nil {
			return nil, err
		}
		r.RID = resourceid.Item(resourceid.Container(r.Owner, r.Owner), n)
	}
	r.ID, r.Kind, r.Made = "resource~"+strings.ReplaceAll(r.RID, "+", "_"), kindResource, c.clock().Unix()
	c.changing.Lock()
	defer c.changing.Unlock()
	if !alive() {
		return nil, errDropped
	}
	var err error
	if old != nil {
		if old, err = c.presentResource(old, ifMatch); err != nil {
			return nil, err
		}
	}
	if other := c.resource(r.set(), r.Name); other != nil && other != old {
		return nil, failf(http.StatusConflict, "there is a resource %q of %s already", r.Name, r.Type)
	}
	more, size, set := len(r.Definition), 0, c.resourcesOf(r.set())
	for _, one := range set {
		size += len(one.record.Definition)
	}
	if old != nil {
		more -= len(old.record.Definition)
	}
	if old == nil && len(set) >= maxResources || more > 0 && size+more > maxResourceBytes {
		return nil, failf(http.StatusForbidden, "there are %d %s of %d bytes: %d of %d bytes are possible", len(set), r.Type, size, maxResources, maxResourceBytes)
	}
	next := &child{record: r}
	if next.etag, err = c.put(ctx, &next.record); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old != nil {
		delete(c.resources[r.set()], old.record.Name)
	}
	c.keepResource(next)
	return next, nil
}

// deleteResource deletes a resource and what belongs to it.
func (c *catalog) deleteResource(ctx context.Context, r *child, ifMatch string) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	r, err := c.presentResource(r, ifMatch)
	if err != nil {
		return err
	}
	// Permissions without their user are not shown, and are deleted when the store is
	// opened again if a crash leaves them.
	if err := c.store.Delete(ctx, catalogKey, r.record.ID, nil); err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.resources[r.record.set()], r.record.Name)
	delete(c.byRID, r.record.RID)
	c.mu.Unlock()
	return c.clearResources(ctx, func(set resourceSet) bool { return set.parent != "" && set.parent == r.record.RID })
}

// clearResources deletes all resources of the sets that gone names: nobody can reach them
// any more. The caller holds changing, or is alone.
func (c *catalog) clearResources(ctx context.Context, gone func(resourceSet) bool) error {
	c.mu.Lock()
	var all []*child
	for set, resources := range c.resources {
		if gone(set) {
			all = slices.AppendSeq(all, maps.Values(resources))
			delete(c.resources, set)
		}
	}
	for _, r := range all {
		delete(c.byRID, r.record.RID)
	}
	c.mu.Unlock()
	for _, r := range all {
		if err := c.erase(ctx, r.record.ID); err != nil {
			return err
		}
	}
	return nil
}

// clearOrphans deletes the resources that a crash left without their owner.
func (c *catalog) clearOrphans(ctx context.Context) error {
	owners := make(map[uint32]bool)
	for _, d := range c.byName {
		owners[d.record.Number] = true
		for _, k := range d.containers {
			owners[k.record.Number] = true
		}
	}
	rids := make(map[string]bool)
	for set, all := range c.resources {
		if owners[set.owner] {
			for _, r := range all {
				rids[r.record.RID] = true
			}
		}
	}
	return c.clearResources(ctx, func(set resourceSet) bool { return !owners[set.owner] || set.parent != "" && !rids[set.parent] })
}

// place of resources that a path names.
type owner struct {
	set   resourceSet
	rid   string
	self  string // of the owner, with a slash at its end
	alive func() bool
}

// ofContainer returns the owner of scripts.
func (c *call) ofContainer(k *container, kind string) *owner {
	return &owner{resourceSet{owner: k.record.Number, kind: kind}, k.rid, k.self(), func() bool {
		now, bad := c.catalog.container(k.record.Database, k.record.Name)
		return bad == nil && now.record.Number == k.record.Number
	}}
}

// ofDatabase returns the owner of users.
func (c *call) ofDatabase(d *database) *owner {
	return &owner{resourceSet{owner: d.record.Number, kind: kindUser}, d.rid(), d.self(), func() bool {
		now := c.catalog.database(d.record.Name)
		return now != nil && now.record.Number == d.record.Number
	}}
}

// ofUser returns the owner of permissions.
func (c *call) ofUser(d *database, user *child) *owner {
	of := c.ofDatabase(d)
	return &owner{resourceSet{d.record.Number, user.record.RID, kindPermission}, user.record.RID, of.self + "users/" + user.record.RID + "/", func() bool {
		return of.alive() && c.catalog.ofRID(user.record.RID) != nil
	}}
}

// shownResource returns a resource as clients see it.
func (c *call) shownResource(of *owner, r *child) map[string]any {
	all := map[string]any{}
	var parts map[string]json.RawMessage
	_ = json.Unmarshal(r.record.Definition, &parts) // it was checked
	for name, value := range parts {
		all[name] = value
	}
	all["id"], all["_rid"], all["_etag"], all["_ts"] = r.record.Name, r.record.RID, r.etag.String(), r.record.Made
	all["_self"] = of.self + of.set.kind + "/" + r.record.RID + "/"
	switch of.set.kind {
	case kindUser:
		all["_permissions"] = "permissions/"
	case kindPermission:
		all["_token"] = c.tokenOf(r)
	}
	return all
}

// users answers requests below /dbs/d/users.
func (c *call) users() error {
	d, bad := c.namedDatabase()
	if bad != nil {
		return bad
	}
	p := c.path[3:]
	of := c.ofDatabase(d)
	if len(p) < 2 {
		return c.children(of, p)
	}
	user := c.catalog.resource(of.set, p[0])
	if user == nil {
		return failf(http.StatusNotFound, "database %q has no user %q", d.record.Name, clip(p[0]))
	}
	if p[1] != kindPermission || len(p) > 3 {
		return c.unknown()
	}
	return c.children(c.ofUser(d, user), p[2:])
}

// children answers requests to a set of resources, or to the one that name names.
func (c *call) children(of *owner, name []string) error {
	c.charge = metaCharge
	if len(name) == 0 {
		return c.only(map[string]func() error{
			http.MethodGet:  func() error { return c.listChildren(of) },
			http.MethodPost: func() error { return c.postChildren(of) },
		})
	}
	r := c.catalog.resource(of.set, name[0])
	if r == nil {
		return failf(http.StatusNotFound, "there is no resource %q of %s", clip(name[0]), of.set.kind)
	}
	show := func(r *child) error {
		c.w.Header().Set("etag", r.etag.String())
		return c.answerJSON(http.StatusOK, c.shownResource(of, r))
	}
	return c.only(map[string]func() error{
		http.MethodGet: func() error {
			if c.r.Header.Get("If-None-Match") == r.etag.String() {
				c.answer(http.StatusNotModified, nil)
				return nil
			}
			return show(r)
		},
		http.MethodPut: func() error {
			record, err := c.readResource(of)
			if err != nil {
				return err
			}
			record.RID = r.record.RID
			next, err := c.catalog.putResource(context.WithoutCancel(c.ctx), *record, r, condition.Header(c.r.Header), of.alive)
			if err != nil {
				return err
			}
			return show(next)
		},
		http.MethodDelete: func() error {
			if err := c.catalog.deleteResource(context.WithoutCancel(c.ctx), r, condition.Header(c.r.Header)); err != nil {
				return err
			}
			c.answer(http.StatusNoContent, nil)
			return nil
		},
	})
}

func (c *call) listChildren(of *owner) error {
	var all []map[string]any
	for _, r := range c.catalog.resourcesOf(of.set) {
		all = append(all, c.shownResource(of, r))
	}
	return c.list(of.rid, feedNames[of.set.kind], all)
}

func (c *call) postChildren(of *owner) error {
	if c.isQuery() {
		return c.listChildren(of)
	}
	record, err := c.readResource(of)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	var old *child
	if isTrue(c.r.Header.Get("X-Ms-Documentdb-Is-Upsert")) {
		if same := c.catalog.resource(of.set, record.Name); same != nil && same.record.Name == record.Name { // not its resource id
			old, status, record.RID = same, http.StatusOK, same.record.RID
		}
	}
	r, err := c.catalog.putResource(context.WithoutCancel(c.ctx), *record, old, condition.Header(c.r.Header), of.alive)
	if err != nil {
		return err
	}
	c.w.Header().Set("etag", r.etag.String())
	return c.answerJSON(status, c.shownResource(of, r))
}

// definition is what every kind of resource may have.
type resourceDefinition struct {
	ID               string `json:"id"`
	Body             string `json:"body"`
	TriggerType      string `json:"triggerType"`
	TriggerOperation string `json:"triggerOperation"`
	PermissionMode   string `json:"permissionMode"`
	Resource         string `json:"resource"`
	// PartitionKey is that of the only items that a permission is for, if it is set.
	PartitionKey json.RawMessage `json:"resourcePartitionKey"`
}

// readResource reads the definition of a resource. Whether a script can be read shows when
// it runs.
func (c *call) readResource(of *owner) (*resourceRecord, error) {
	body, err := c.body(maxMetaBody)
	if err != nil {
		return nil, err
	}
	var d resourceDefinition
	var all map[string]json.RawMessage
	if err = json.Unmarshal(body, &d); err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil {
		return nil, badf("the definition of a resource of %s: %s", of.set.kind, jsonfault.Text(err))
	}
	for _, name := range []string{document.RID, document.TS, document.Self, document.ETag, "_token", "_permissions"} {
		delete(all, name)
	}
	if of.set.kind == kindPermission && string(all["resourcePartitionKey"]) == "null" {
		delete(all, "resourcePartitionKey")
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	// The bytes that are kept are checked. Of names that differ by case only the last one counts, and here they are sorted.
	r := &child{record: resourceRecord{Owner: of.set.owner, Parent: of.set.parent, Type: of.set.kind, Definition: text}}
	d = r.definition()
	r.record.Name = d.ID
	switch of.set.kind {
	case kindProcedure, kindTrigger, kindFunction:
		if d.Body == "" {
			return nil, badf("the definition of %q has no member body, which is the text of a function", clip(d.ID))
		}
	case kindPermission:
		if mode := lower(d.PermissionMode); mode != "all" && mode != "read" {
			return nil, badf("permissionMode is %q, All and Read are possible", clip(d.PermissionMode))
		}
		if d.Resource == "" {
			return nil, badf("the permission has no member resource, which is the link of what it is for")
		}
		r.record.Container = c.containerOf(c.linked(&d))
	}
	if of.set.kind == kindTrigger {
		if t := lower(d.TriggerType); t != "pre" && t != "post" {
			return nil, badf("triggerType is %q, Pre and Post are possible", clip(d.TriggerType))
		}
		if !slices.Contains([]string{"all", "create", "update", "delete", "replace", "upsert"}, lower(d.TriggerOperation)) {
			return nil, badf("triggerOperation is %q, All, Create, Update, Replace, Upsert and Delete are possible", clip(d.TriggerOperation))
		}
	}
	return &r.record, nil
}

// definition returns what the definition of a resource says.
func (r *child) definition() (d resourceDefinition) {
	_ = json.Unmarshal(r.record.Definition, &d) // it was checked
	return d
}
