package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/condition"
	"github.com/cleavestore/cleave/gateway/internal/headertext"
	"github.com/cleavestore/cleave/gateway/internal/jsonfault"
	"github.com/cleavestore/cleave/gateway/internal/keyrange"
	"github.com/cleavestore/cleave/gateway/internal/listing"
	"github.com/cleavestore/cleave/gateway/internal/provision"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql"
)

func (d *database) rid() string  { return resourceid.Database(d.record.Number) }
func (d *database) self() string { return "dbs/" + d.rid() + "/" }

// shown returns a database as clients see it.
func (d *database) shown() map[string]any {
	return map[string]any{
		"id": d.record.Name, "_rid": d.rid(), "_self": d.self(), "_etag": d.etag.String(), "_ts": d.record.Made,
		"_colls": "colls/", "_users": "users/",
	}
}

func (k *container) self() string { return "dbs/" + k.db.rid() + "/colls/" + k.rid + "/" }

// shown returns a container as clients see it.
func (k *container) shown() map[string]any {
	text, _ := json.Marshal(&k.record.Definition) // it was read from JSON
	all := map[string]any{}
	var parts map[string]json.RawMessage
	_ = json.Unmarshal(text, &parts)
	for name, value := range parts {
		all[name] = value
	}
	all["id"], all["_rid"], all["_self"], all["_etag"], all["_ts"] = k.record.Name, k.rid, k.self(), k.etag.String(), k.record.Made
	all["_docs"], all["_sprocs"], all["_triggers"], all["_udfs"], all["_conflicts"] = "docs/", "sprocs/", "triggers/", "udfs/", "conflicts/"
	return all
}

// isQuery says whether a POST is a query.
func (c *call) isQuery() bool {
	h := c.r.Header
	return isTrue(h.Get("X-Ms-Documentdb-Query")) || isTrue(h.Get("X-Ms-Documentdb-Isquery")) ||
		strings.HasPrefix(h.Get("Content-Type"), "application/query+json")
}

func isTrue(s string) bool { return strings.EqualFold(s, "true") }

// queryBody is the body of a query.
type queryBody struct {
	Query      string `json:"query"`
	Parameters []struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	} `json:"parameters"`
}

// maxQueryText is the length of the longest query.
const maxQueryText = 512 << 10

// readQuery reads the body of a query.
func (c *call) readQuery() (text string, parameters map[string]any, err error) {
	b, err := c.body(maxQueryBody)
	if err != nil {
		return "", nil, err
	}
	var q queryBody
	if err := json.Unmarshal(b, &q); err != nil {
		return "", nil, badf("the body of the query is not JSON with query and parameters: %s", jsonfault.Text(err))
	}
	if q.Query == "" {
		return "", nil, badf("the body has no member query, or it is empty")
	}
	if len(q.Query) > maxQueryText {
		return "", nil, badf("the query has %d bytes, at most %d are read", len(q.Query), maxQueryText)
	}
	parameters = make(map[string]any, len(q.Parameters))
	for _, p := range q.Parameters {
		if !strings.HasPrefix(p.Name, "@") {
			return "", nil, badf("the parameter %q does not begin with @", clip(p.Name))
		}
		setDefault(&p.Value, "null")
		parameters[p.Name] = p.Value
	}
	return q.Query, parameters, nil
}

// list answers a feed of metadata, or a query over it.
func (c *call) list(rid, name string, all []map[string]any) error {
	c.charge = metaCharge
	r := listing.Request{After: c.r.Header.Get("X-Ms-Continuation"), Size: c.r.Header.Get("X-Ms-Max-Item-Count")}
	if c.r.Method == http.MethodPost {
		text, parameters, err := c.readQuery()
		if err != nil {
			return err
		}
		st, err := sql.Parse(text, parameters, sql.Options{})
		if err != nil {
			return badf("query: %v", err)
		}
		s := st.Select
		if !st.Whole() || len(s.Columns) > 0 || s.Distinct || len(s.GroupBy) > 0 || len(s.OrderBy) > 0 {
			return badf("query: of %s only whole ones can be selected, without an order", name)
		}
		filter := query.Compile(s.Where, nil).Evaluator()
		filter.Ctx = c.ctx
		kept := all[:0:0]
		for _, one := range all {
			shown, failed := json.Marshal(one)
			if failed != nil {
				return failed
			}
			if filter.Match(shown) {
				kept = append(kept, one)
			}
			if filter.Err != nil {
				return badf("query: %v", filter.Err)
			}
		}
		all, r.Offset, r.Limit = kept, st.Offset, st.Limit
	}
	page, next, ok := listing.Page(all, r)
	if !ok {
		return badf("x-ms-continuation %q is not what an answer gave", clip(r.After))
	}
	if c.r.Method == http.MethodPost {
		c.w.Header().Set("x-ms-documentdb-query-metrics", headertext.Metrics(0, int64(len(page)), int64(len(page)), 0))
	}
	if next != "" {
		c.w.Header().Set("x-ms-continuation", next)
	}
	if page == nil {
		page = []map[string]any{}
	}
	c.w.Header().Set("x-ms-item-count", strconv.Itoa(len(page)))
	return c.answerJSON(http.StatusOK, map[string]any{"_rid": rid, name: page, "_count": len(page)})
}

func (c *call) listDatabases() error {
	var all []map[string]any
	for _, d := range c.catalog.databases() {
		all = append(all, d.shown())
	}
	return c.list("", "Databases", all)
}

func (c *call) postDatabases() error {
	if c.isQuery() {
		return c.listDatabases()
	}
	c.charge = metaCharge
	b, err := c.body(maxMetaBody)
	if err != nil {
		return err
	}
	var p struct {
		ID string `json:"id"`
	}
	if err = json.Unmarshal(b, &p); err != nil {
		return badf("the definition of a database: %s", jsonfault.Text(err))
	}
	o, err := provision.Of(c.r.Header)
	if err != nil {
		return badf("%v", err)
	}
	d, err := c.catalog.createDatabase(c.ctx, p.ID, o)
	if err != nil {
		return err
	}
	c.w.Header().Set("etag", d.etag.String())
	return c.answerJSON(http.StatusCreated, d.shown())
}

// namedDatabase returns the database that the path names.
func (c *call) namedDatabase() (*database, *failure) {
	if d := c.catalog.database(c.path[1]); d != nil {
		return d, nil
	}
	return nil, failf(http.StatusNotFound, "there is no database %q", clip(c.path[1])).withSub(subOwnerMissing)
}

func (c *call) readDatabase() error {
	c.charge = metaCharge
	d, bad := c.namedDatabase()
	if bad != nil {
		return bad
	}
	c.w.Header().Set("etag", d.etag.String())
	if c.r.Header.Get("If-None-Match") == d.etag.String() {
		c.answer(http.StatusNotModified, nil)
		return nil
	}
	return c.answerJSON(http.StatusOK, d.shown())
}

func (c *call) deleteDatabase() error {
	c.charge = metaCharge
	d, bad := c.namedDatabase()
	if bad != nil {
		return bad
	}
	if err := c.catalog.deleteDatabase(context.WithoutCancel(c.ctx), d, condition.Header(c.r.Header)); err != nil {
		return err
	}
	c.answer(http.StatusNoContent, nil)
	return nil
}

// matches checks an If-Match against an etag.
func matches(want string, have engine.ETag) error {
	if want != "" && want != "*" && want != have.String() {
		return failf(http.StatusPreconditionFailed, "the etag is %s, If-Match has %s", have, clip(want))
	}
	return nil
}

func (c *call) listContainers() error {
	d, bad := c.namedDatabase()
	if bad != nil {
		return bad
	}
	var all []map[string]any
	for _, k := range c.catalog.containersOf(d) {
		all = append(all, k.shown())
	}
	return c.list(d.rid(), "DocumentCollections", all)
}

func (c *call) postContainers() error {
	if c.isQuery() {
		return c.listContainers()
	}
	c.charge = metaCharge
	d, bad := c.namedDatabase()
	if bad != nil {
		return bad
	}
	p, err := c.readDefinition()
	if err != nil {
		return err
	}
	o, err := provision.Of(c.r.Header)
	if err != nil {
		return badf("%v", err)
	}
	if o == nil && d.record.Offer == nil {
		o = &offer{Throughput: provision.Least}
	}
	def, bad := p.engineDef(c.o.CreationOrder)
	if bad != nil {
		return bad
	}
	if o != nil {
		def.MinPartitions = o.Partitions()
		if c.o.Throttle {
			def.Throughput = float64(o.Throughput)
		}
	}
	k, err := c.catalog.createContainer(context.WithoutCancel(c.ctx), d, p, def, o)
	if err != nil {
		return err
	}
	c.containerHeaders(k)
	return c.answerJSON(http.StatusCreated, k.shown())
}

func (c *call) readDefinition() (*containerProperties, error) {
	b, err := c.body(maxMetaBody)
	if err != nil {
		return nil, err
	}
	p := &containerProperties{}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, badf("the definition of a container: %s", jsonfault.Text(err))
	}
	if bad := p.complete(); bad != nil {
		return nil, bad
	}
	return p, nil
}

// containerHeaders sets the headers of answers about a container.
func (c *call) containerHeaders(k *container) {
	h := c.w.Header()
	h.Set("etag", k.etag.String())
	c.pathHeaders(k)
	h.Set("x-ms-session-token", c.sessionToken(k.rangeID(c.o.Clock(), engine.PartitionKey{})))
}

func (c *call) pathHeaders(k *container) {
	c.set("X-Ms-Alt-Content-Path", "dbs/"+headertext.Of(k.record.Database)+"/colls/"+headertext.Of(k.record.Name))
	c.set("X-Ms-Content-Path", k.rid)
}

func (c *call) readContainer(k *container) error {
	c.charge = metaCharge
	c.containerHeaders(k)
	h := c.w.Header()
	if c.r.Header.Get("If-None-Match") == k.etag.String() {
		c.answer(http.StatusNotModified, nil)
		return nil
	}
	parts, _ := k.ranges(c.o.Clock(), true)
	var documents, bytes int64
	for i := range parts {
		documents += parts[i].Items
		bytes += parts[i].RawBytes
	}
	kib := strconv.FormatInt((bytes+1023)>>10, 10)
	h.Set("x-ms-resource-quota", "documentSize=-1;documentsSize=-1;documentsCount=-1;collectionSize=-1;")
	if len(parts) == 0 || parts[0].Items >= 0 {
		h.Set("x-ms-resource-usage", "documentSize=0;documentsSize="+kib+";documentsCount="+strconv.FormatInt(documents, 10)+";collectionSize="+kib+";")
	}
	// Indexes are always complete: the store answers from documents what an index lacks.
	h.Set("x-ms-documentdb-collection-index-transformation-progress", "100")
	if p, bad := k.record.Definition.indexing(); bad == nil && p.IndexingMode == "lazy" {
		h.Set("x-ms-documentdb-collection-lazy-indexing-progress", "100")
	}
	out := k.shown()
	if isTrue(c.r.Header.Get("X-Ms-Documentdb-Populatepartitionstatistics")) && (len(parts) == 0 || parts[0].Items >= 0) {
		var statistics []map[string]any
		for i := range parts {
			statistics = append(statistics, map[string]any{
				"id": parts[i].ID, "sizeInKB": (parts[i].RawBytes + 1023) >> 10,
				"documentCount": parts[i].Items, "partitionKeys": []any{},
			})
		}
		out["statistics"] = statistics
	}
	return c.answerJSON(http.StatusOK, out)
}

func (c *call) replaceContainer(k *container) error {
	c.charge = metaCharge
	p, err := c.readDefinition()
	if err != nil {
		return err
	}
	index, bad := p.index(c.o.CreationOrder)
	if bad != nil {
		return bad
	}
	ctx := context.WithoutCancel(c.ctx)
	next, err := c.catalog.changeContainer(ctx, k, condition.Header(c.r.Header), func(r *containerRecord) (func() error, error) {
		if bad := r.Definition.mayBecome(p); bad != nil {
			return nil, bad
		}
		p.ChangeFeedPolicy = r.Definition.ChangeFeedPolicy
		r.Definition = *p
		set := func(index engine.IndexPolicy, ttl time.Duration) error {
			// The index policy can be refused, and items that have expired do not come back.
			if err := k.items.SetIndexPolicy(ctx, index); err != nil || !k.mutable {
				return err
			}
			return k.items.SetDefaultTTL(ctx, ttl)
		}
		before := k.items.Def()
		return func() error { return set(before.Index, before.DefaultTTL) }, set(index, p.storedTTL())
	})
	if err != nil {
		return err
	}
	c.containerHeaders(next)
	return c.answerJSON(http.StatusOK, next.shown())
}

// mayBecome checks that what cannot be changed is as it was.
func (p *containerProperties) mayBecome(next *containerProperties) *failure {
	same := func(a, b any) bool {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return string(x) == string(y)
	}
	switch {
	case p.ID != next.ID:
		return badf("the id of a container cannot be changed, from %q to %q", p.ID, clip(next.ID))
	case !same(p.PartitionKey, next.PartitionKey):
		return badf("the partition key of the container %q cannot be changed", p.ID)
	case next.UniqueKeyPolicy != nil && !same(p.UniqueKeyPolicy, next.UniqueKeyPolicy):
		return badf("the unique keys of the container %q cannot be changed", p.ID)
	}
	next.UniqueKeyPolicy = p.UniqueKeyPolicy
	return nil
}

func (c *call) deleteContainer(k *container) error {
	c.charge = metaCharge
	if err := c.catalog.deleteContainer(context.WithoutCancel(c.ctx), k, condition.Header(c.r.Header)); err != nil {
		return err
	}
	c.answer(http.StatusNoContent, nil)
	return nil
}

// noConflicts answers the feed of conflicts, or a query over it.
func (c *call) noConflicts(k *container) error {
	return c.list(k.rid, feedNames["conflicts"], nil)
}

// listRanges answers with the physical partitions. As an incremental feed it shows all of
// them with their ancestors when one has changed, and 304 when none has.
func (c *call) listRanges(k *container) error {
	c.charge = metaCharge
	now := c.o.Clock()
	parts, etag := k.ranges(now, false)
	c.containerHeaders(k)
	h := c.w.Header()
	h.Set("etag", etag)
	if c.r.Header.Get("A-Im") != "" && c.r.Header.Get("If-None-Match") == etag {
		c.answer(http.StatusNotModified, nil)
		return nil
	}
	whole := len(parts)
	if after := c.r.Header.Get("If-None-Match"); c.r.Header.Get("A-Im") != "" && after != "" {
		parts = k.news(parts, after)
	}
	parents, version := k.items.Ancestors(parts), k.record.Definition.PartitionKey.Version
	all := make([]keyRange, len(parts))
	for i := range parts {
		p := &parts[i]
		rid := strings.TrimSuffix(resourceid.Item(k.rid, resourceid.RangeNumber(p.ID)), "AA==") + "UA==" // U: of a range
		all[i] = keyRange{
			ID: p.ID, RID: rid, Self: k.self() + "pkranges/" + p.ID + "/", ETag: etag, Min: keyrange.Show(version, p.Min), Max: keyrange.Show(version, p.Max),
			Fraction: 1 / float64(whole), Status: "online", Parents: parents[p.ID], Made: k.record.Made, LSN: p.Visible,
			OwnedByOld: []string{},
		}
	}
	h.Set("x-ms-item-count", strconv.Itoa(len(all)))
	return c.answerJSON(http.StatusOK, map[string]any{"_rid": k.rid, "PartitionKeyRanges": all, "_count": len(all)})
}
