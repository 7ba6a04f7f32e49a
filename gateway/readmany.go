package gateway

import (
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// Clients read many items by queries of three forms, over a named range:
//
//	SELECT * FROM c WHERE c.id IN (…)                       the key is the id
//	SELECT * FROM c WHERE c.pk = … AND c.id IN (…)          one logical partition
//	SELECT * FROM c WHERE (c.id = … AND c.pk = …) OR …
//
// Such a query says which items it wants, so that they are read one by one. If they are more than
// a page holds, it is answered as others are, in pages.

// mostIdentities is how many items a query of this kind may name.
const mostIdentities = 1000

// readMany answers a query that names all of its items. ok is false for other queries.
func (c *call) readMany(k *container, p *place, text string, parameters map[string]any) (out *page, ok bool, err error) {
	if p.key.Valid() || c.r.Header.Get("X-Ms-Continuation") != "" {
		return nil, false, nil
	}
	s, err := query.Parse(text, parameters)
	if err != nil || len(s.Columns) > 0 || len(s.OrderBy) > 0 || len(s.GroupBy) > 0 || s.Distinct || s.Offset > 0 || s.Limit > 0 {
		return nil, false, nil
	}
	var items []engine.ItemIdentity
	paths := k.record.Definition.PartitionKey.Paths
	for _, f := range alternatives(s.Where) {
		named, ok := identities(f, paths)
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
		it.Key = k.own(it.Key)
		if epk := it.Key.EPK(); !seen[it] && p.within.Contains(&epk) {
			within = append(within, it)
		}
		seen[it] = true
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

// alternatives returns the parts of a disjunction.
func alternatives(f *query.Filter) []*query.Filter {
	if f != nil && f.Op == query.Or {
		return f.Sub
	}
	return []*query.Filter{f}
}

// identities returns the items that a conjunction names: one value at each path of the
// partition key, and one or more ids.
func identities(f *query.Filter, paths []string) ([]engine.ItemIdentity, bool) {
	if f == nil {
		return nil, false
	}
	parts := []*query.Filter{f}
	if f.Op == query.And {
		parts = f.Sub
	}
	var ids []string
	at := map[string]engine.PartitionKey{}
	for _, part := range parts {
		path := part.Path.String()
		values := part.Values
		if part.Op == query.Eq {
			values = []query.Value{part.Value}
		}
		switch {
		case path == "/id" && (part.Op == query.Eq || part.Op == query.In) && ids == nil:
			for _, v := range values {
				if v.Kind != jsondoc.KindString {
					return nil, false
				}
				ids = append(ids, v.Text)
			}
		case part.Op == query.Eq && !at[path].Valid():
			at[path] = keyOfValue(part.Value)
		default:
			return nil, false
		}
	}
	var out []engine.ItemIdentity
	for _, id := range ids {
		var levels []engine.PartitionKey
		used := 0
		for _, path := range paths {
			level, ok := at[path]
			switch {
			case ok:
				used++
			case path == "/id":
				level = engine.StringKey(id)
			}
			levels = append(levels, level)
		}
		key := engine.JoinKeys(levels...)
		if !key.Valid() || used != len(at) {
			return nil, false
		}
		out = append(out, engine.ItemIdentity{Key: key, ID: id})
	}
	return out, len(out) > 0
}

func keyOfValue(v query.Value) engine.PartitionKey {
	switch v.Kind {
	case jsondoc.KindNull:
		return partmap.Null()
	case jsondoc.KindBool:
		return partmap.Bool(v.Bool)
	case jsondoc.KindNumber:
		return partmap.Number(v.Number)
	case jsondoc.KindString:
		return partmap.String(v.Text)
	}
	return engine.PartitionKey{}
}
