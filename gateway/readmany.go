package gateway

import (
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/keyrange"
	"github.com/cleavestore/cleave/gateway/internal/wirekey"
	"github.com/cleavestore/cleave/internal/sql"
)

// Clients read many items by queries of three forms, over a named range:
//
//	SELECT * FROM c WHERE c.id IN (…)                       the key is the id
//	SELECT * FROM c WHERE c.pk = … AND c.id IN (…)          one logical partition
//	SELECT * FROM c WHERE (c.id = … AND c.pk = …) OR …
//
// Such a query says which items it wants, so that they are read one by one. If they are more than
// a page holds, it is answered as others are, in pages. A client that leaves the size of pages to the server, as azcosmos
// does, gets up to 4 MiB.

// mostIdentities is how many items a query of this kind may name.
const mostIdentities = 1000

// readMany answers a query that names all of its items. ok is false for other queries.
func (c *call) readMany(k *container, p *place, text string, parameters map[string]any, size int) (out *page, ok bool, err error) {
	if p.key.Valid() || c.r.Header.Get("X-Ms-Continuation") != "" {
		return nil, false, nil
	}
	st, err := sql.Parse(text, parameters, sql.Options{})
	if err != nil || !st.Whole() {
		return nil, false, nil
	}
	s := st.Select
	if len(s.Columns) > 0 || len(s.OrderBy) > 0 || len(s.GroupBy) > 0 || s.Distinct || st.Offset > 0 || st.Limit > 0 {
		return nil, false, nil
	}
	var items []engine.ItemIdentity
	paths := k.record.Definition.PartitionKey.Paths
	for _, f := range wirekey.Alternatives(s.Where) {
		named, ok := wirekey.Identities(f, paths)
		if !ok || len(items)+len(named) > mostIdentities {
			return nil, false, nil
		}
		items = append(items, named...)
	}
	if len(items) == 0 || p.all && len(items) > 1 {
		// Without a named range this is an ordinary query, with pages.
		return nil, false, nil
	}
	seen := map[engine.ItemIdentity]bool{}
	within := items[:0]
	for _, it := range items {
		it.Key = keyrange.Own(k.record.Definition.PartitionKey.Version, it.Key)
		if epk := it.Key.EPK(); !seen[it] && p.within.Contains(&epk) {
			within = append(within, it)
		}
		seen[it] = true
	}
	if len(within) > size && c.r.Header.Get("X-Ms-Max-Item-Count") != "" {
		return nil, false, nil
	}
	out = &page{}
	before := c.charge
	for r, err := range k.items.ReadMany(c.ctx, within) {
		if err != nil {
			return nil, true, err
		}
		c.charge += r.Charge
		if !r.Found {
			continue
		}
		if len(out.documents) >= pageBytes {
			c.charge = before
			return nil, false, nil
		}
		if out.count > 0 {
			out.documents = append(out.documents, ',')
		}
		out.documents = k.appendItem(out.documents, r.Body, r.ETag, 0)
		out.stats.Documents++
		out.stats.Bytes += int64(len(r.Body))
		out.count++
	}
	c.charge = max(c.charge, 1)
	return out, true, nil
}
