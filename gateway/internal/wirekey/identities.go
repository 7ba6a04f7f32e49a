package wirekey

import (
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keyscope"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// Alternatives returns the parts of a disjunction.
func Alternatives(f *query.Filter) []*query.Filter {
	if f != nil && f.Op == query.Or {
		return f.Sub
	}
	return []*query.Filter{f}
}

// Identities returns the items that a conjunction names: one value at each path of the
// partition key, and one or more ids. An id that no item can have is left out.
func Identities(f *query.Filter, paths []string) ([]engine.ItemIdentity, bool) {
	if f == nil {
		return nil, false
	}
	parts := []*query.Filter{f}
	if f.Op == query.And {
		parts = f.Sub
	}
	var ids []string
	at := map[string]partmap.Key{}
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
			at[path] = keyscope.LevelOf(part.Value)
		default:
			return nil, false
		}
	}
	names := make([]string, len(paths)) // the paths as part.Path.String has them
	for i, path := range paths {
		names[i] = jsondoc.KeyPath(path).String()
	}
	var out []engine.ItemIdentity
	for _, id := range ids {
		if id == "" || len(id) > item.MaxID {
			continue
		}
		var levels []partmap.Key
		used := 0
		for _, path := range names {
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
