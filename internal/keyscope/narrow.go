package keyscope

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// Narrowed is a scope, and what a filter leaves of it.
type Narrowed struct {
	Scope
	// Beginnings are the possible beginnings of keys, in key-space order and with equally
	// many levels: each document for which the filter is true has one of them. nil: the
	// filter allows all keys of the scope.
	Beginnings []partmap.Key
}

// Narrow narrows a scope by what a filter demands of the partition key. A Part stays a
// Part: its keys are narrowed by Beginnings alone.
func (s Scope) Narrow(d *Definition, f *query.Filter) Narrowed {
	if s.Kind == One {
		return Narrowed{Scope: s}
	}
	known := s.Key.Len() // levels
	keys := []partmap.Key{s.Key}
	for _, text := range d.Sources[known:] {
		longer := joinLevel(keys, f.ValuesAt(jsondoc.KeyPath(text)))
		if longer == nil {
			break
		}
		keys = longer
	}
	if keys[0].Len() == known {
		return Narrowed{Scope: s}
	}
	for i := range keys {
		keys[i] = d.Own(keys[i])
	}
	if d.Rule != nil {
		if s.Kind == Part {
			return Narrowed{Scope: s}
		}
		var all []partmap.Key
		for _, key := range keys {
			one := s.narrowSynthetic(d, key)
			if len(keys) == 1 || one == s {
				return Narrowed{Scope: one}
			}
			of, _ := one.Keys(d) // it has been checked
			all = append(all, of...)
		}
		keys = all
	}
	slices.SortFunc(keys, partmap.Key.Compare)
	if keys = slices.Compact(keys); len(keys) > 1 || s.Kind == Part {
		return Narrowed{Scope: s, Beginnings: keys}
	}
	kind := Prefix
	if keys[0].Len() == d.Levels {
		kind = One
	}
	return Narrowed{Scope: Scope{Kind: kind, Key: keys[0], Within: s.Within}}
}

// joinLevel extends each of keys, of which one may be the zero key, by each of values as
// the next level. It returns nil if that is not possible or gives too many keys.
func joinLevel(keys []partmap.Key, values []query.Value) (longer []partmap.Key) {
	if len(keys)*len(values) > query.MaxLeaves {
		return nil
	}
	for _, key := range keys {
		for _, v := range values {
			level := LevelOf(v)
			if !level.Valid() {
				return nil
			}
			if key.Valid() {
				var err error
				if level, err = partmap.Join(key, level); err != nil {
					return nil
				}
			}
			longer = append(longer, level)
		}
	}
	return longer
}

// narrowSynthetic is Narrow for a synthetic key. values are the first source values, which
// are known.
func (s Scope) narrowSynthetic(d *Definition, values partmap.Key) Scope {
	if values.Len() < len(d.Rule.Join) {
		return s
	}
	if values.Len() == len(d.Sources) && !d.Rule.Random() {
		if key, err := d.Rule.Key(values); err == nil {
			return Scope{Kind: One, Key: key}
		}
		return s
	}
	enc := values.Encoded()
	base := Scope{Kind: Base, Key: partmap.FromTrusted(slices.Clone(enc[:partmap.PrefixLen(enc, len(d.Rule.Join))]))}
	if _, err := base.Keys(d); err != nil {
		return s
	}
	return base
}

// LevelOf returns the key of one level of documents whose level is v; the zero key if there can be
// none.
func LevelOf(v query.Value) partmap.Key {
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
	return partmap.Key{}
}

// Lists returns the keys, or beginnings of keys, that a query has to look at. apart says
// that each of them is read for itself. nil: all of the scope.
func (n *Narrowed) Lists(d *Definition) (keys []partmap.Key, apart bool, err error) {
	keys = n.Beginnings
	if apart = n.Kind == Base; apart && keys == nil {
		keys, err = n.Keys(d)
	}
	return keys, apart, err
}

// shownKeys is how many keys String names.
const shownKeys = 8

// String returns the scope for people.
func (n *Narrowed) String() string {
	if n.Beginnings == nil {
		return n.Scope.String()
	}
	var names []string
	for _, key := range n.Beginnings[:min(shownKeys, len(n.Beginnings))] {
		names = append(names, key.String())
	}
	if len(n.Beginnings) > shownKeys {
		names = append(names, "…")
	}
	return fmt.Sprintf("%d keys of %s: %s", len(n.Beginnings), n.Scope, strings.Join(names, ", "))
}
