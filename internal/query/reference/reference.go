// Package reference is a second implementation of queries, for tests: slow, simple and
// without code of package query. It also draws random documents and queries.
//
// Documents are the values of encoding/json. A query that the reference does not
// support ends the test.
package reference

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/query"
)

// Document is a document with where it lies.
type Document struct {
	Place string // EPK, key and id, so that places compare as documents do
	Root  any
}

// Parse returns a document as encoding/json reads it, without minus zeros.
func Parse(t testing.TB, body []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return unsigned(v)
}

// unsigned makes zeros of minus zeros.
func unsigned(v any) any {
	switch v := v.(type) {
	case float64:
		if v == 0 {
			return 0.0
		}
	case []any:
		for i := range v {
			v[i] = unsigned(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = unsigned(v[k])
		}
	}
	return v
}

// at returns the values to which a path leads.
func at(v any, p query.Path) []any {
	if len(p) == 0 {
		return []any{v}
	}
	if p[0].Element {
		var all []any
		list, _ := v.([]any)
		for _, e := range list {
			all = append(all, at(e, p[1:])...)
		}
		return all
	}
	m, _ := v.(map[string]any)
	if child, ok := m[p[0].Name]; ok {
		return at(child, p[1:])
	}
	return nil
}

// The results of conditions, as pointers: nil is undefined.
var (
	yes = new(bool)
	no  = new(bool)
)

func init() { *yes = true }

func truth(b bool) *bool {
	if b {
		return yes
	}
	return no
}

// Matches says whether a filter is true for a document.
func Matches(t testing.TB, root any, f *query.Filter) bool {
	t.Helper()
	return eval(t, root, f) == yes
}

func eval(t testing.TB, root any, f *query.Filter) *bool {
	switch f.Op {
	case query.All:
		return yes
	case query.Not:
		switch eval(t, root, f.Sub[0]) {
		case yes:
			return no
		case no:
			return yes
		}
		return nil
	case query.And, query.Or:
		decides, other := no, yes
		if f.Op == query.Or {
			decides, other = yes, no
		}
		result := other
		for _, s := range f.Sub {
			switch eval(t, root, s) {
			case decides:
				return decides
			case nil:
				result = nil
			}
		}
		return result
	}
	values := at(root, f.Path)
	var best *bool
	if f.Op == query.Exists || f.Op == query.IsKind {
		best = no
	}
	for _, v := range values {
		switch test(t, v, f) {
		case yes:
			return yes
		case no:
			best = no
		}
	}
	return best
}

func test(t testing.TB, v any, f *query.Filter) *bool {
	switch f.Op {
	case query.Exists:
		return yes
	case query.IsKind:
		return truth(f.Kinds>>kind(v)&1 == 1)
	case query.Eq, query.Ne:
		if kind(v) != kind(plain(f.Value)) || kind(v) > 4 {
			return nil
		}
		return truth((v == plain(f.Value)) == (f.Op == query.Eq))
	case query.In:
		other := false
		for _, o := range f.Values {
			if v == plain(o) {
				return yes
			}
			other = other || kind(v) != kind(plain(o))
		}
		if other {
			return nil
		}
		return no
	case query.Range:
		lo, hi := plain(f.Lo.Value), plain(f.Hi.Value)
		if lo != absent && kind(lo) != kind(v) || hi != absent && kind(hi) != kind(v) {
			return nil
		}
		if lo != absent {
			if c := Compare(v, lo); c < 0 || c == 0 && !f.Lo.Inclusive {
				return no
			}
		}
		if hi != absent {
			if c := Compare(v, hi); c > 0 || c == 0 && !f.Hi.Inclusive {
				return no
			}
		}
		return yes
	case query.Prefix, query.Contains:
		s, ok := v.(string)
		if !ok {
			return nil
		}
		if f.Op == query.Prefix {
			return truth(strings.HasPrefix(s, f.Value.Text))
		}
		return truth(strings.Contains(s, f.Value.Text))
	case query.ArrayContains:
		list, ok := v.([]any)
		if !ok {
			return nil
		}
		for _, e := range list {
			if kind(e) < 5 && e == plain(f.Value) {
				return yes
			}
		}
		return no
	}
	t.Fatalf("the reference does not know the condition %s", f)
	return nil
}

type nothing struct{}

// absent is the value where there is none.
var absent any = nothing{}

// plain returns a constant as encoding/json would have it.
func plain(v query.Value) any {
	switch v.Kind {
	case 1:
		return nil
	case 2:
		return v.Bool
	case 3:
		return v.Number
	case 4:
		return v.Text
	}
	return absent
}

// kind numbers the types in the order of values.
func kind(v any) int {
	switch v.(type) {
	case nothing:
		return 0
	case nil:
		return 1
	case bool:
		return 2
	case float64:
		return 3
	case string:
		return 4
	case []any:
		return 5
	}
	return 6
}

// Compare orders any two values.
func Compare(a, b any) int {
	if c := cmp.Compare(kind(a), kind(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case bool:
		if a == b.(bool) {
			return 0
		}
		if a {
			return 1
		}
		return -1
	case float64:
		return cmp.Compare(a, b.(float64))
	case string:
		return strings.Compare(a, b.(string))
	}
	return 0
}

// one returns the value to which a path leads, absent if there is none.
func one(root any, p query.Path) any {
	if v := at(root, p); len(v) > 0 {
		return v[0]
	}
	return absent
}

// Rows answers a query, without its offset and limit: rows as encoding/json has
// them, in order. For whole documents rows are documents.
func Rows(t testing.TB, docs []Document, s *query.Select) []any {
	t.Helper()
	var found []Document
	for _, d := range docs {
		if Matches(t, d.Root, s.Where) {
			found = append(found, d)
		}
	}
	if s.Grouped() {
		return groups(t, found, s)
	}
	slices.SortFunc(found, func(a, b Document) int {
		for _, o := range s.OrderBy {
			c := Compare(one(a.Root, o.Path), one(b.Root, o.Path))
			if o.Falling {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return strings.Compare(a.Place, b.Place)
	})
	var rows []any
	for _, d := range found {
		if len(s.Columns) == 0 {
			rows = append(rows, d.Root)
			continue
		}
		if row := rowOf(s, func(c query.Column) any { return one(d.Root, c.Path) }); row != absent {
			rows = append(rows, row)
		}
	}
	return rows
}

func rowOf(s *query.Select, value func(query.Column) any) any {
	row := make(map[string]any)
	for _, c := range s.Columns {
		v := value(c)
		if s.Value {
			return v
		}
		if kind(v) > 0 {
			row[c.Name] = v
		}
	}
	return row
}

func groups(t testing.TB, found []Document, s *query.Select) []any {
	type group struct {
		values []any
		docs   []Document
	}
	paths := s.GroupBy
	if s.Distinct {
		for _, c := range s.Columns {
			paths = append(paths, c.Path)
		}
	}
	byText := make(map[string]*group)
	if len(paths) == 0 {
		byText[""] = &group{docs: found}
	}
	for _, d := range found {
		if len(paths) == 0 {
			break
		}
		var values []any
		text := ""
		for _, p := range paths {
			v := one(d.Root, p)
			values = append(values, v)
			if kind(v) > 0 {
				text += canonical(v)
			}
			text += "\n"
		}
		if byText[text] == nil {
			byText[text] = &group{values: values}
		}
		byText[text].docs = append(byText[text].docs, d)
	}
	var list []*group
	for _, g := range byText {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *group) int {
		for i := range a.values {
			c := Compare(a.values[i], b.values[i])
			if c == 0 && kind(a.values[i]) > 4 {
				c = strings.Compare(canonical(a.values[i]), canonical(b.values[i]))
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	var rows []any
	for _, g := range list {
		row := rowOf(s, func(c query.Column) any {
			if c.Func != query.NoFunc {
				return aggregate(g.docs, c)
			}
			for i, p := range paths {
				if p.String() == c.Path.String() {
					return g.values[i]
				}
			}
			t.Fatalf("column %s is no group", c.Path)
			return absent
		})
		if row != absent {
			rows = append(rows, row)
		}
	}
	return rows
}

// canonical writes a value: equal ones are written alike. Arrays come in the order of these
// texts, and so do objects.
func canonical(v any) string {
	var parts []string
	switch v := v.(type) {
	case string:
		text := `"`
		for _, r := range v {
			switch {
			case r == '"' || r == '\\':
				text += `\` + string(r)
			case r < ' ':
				text += fmt.Sprintf(`\u%04x`, r)
			default:
				text += string(r)
			}
		}
		return text + `"`
	case float64:
		size := math.Abs(v)
		switch {
		case math.IsInf(v, 1):
			return "1e999"
		case math.IsInf(v, -1):
			return "-1e999"
		case v != 0 && (size < 1e-6 || size >= 1e21):
			return strconv.FormatFloat(v, 'e', -1, 64)
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		for _, e := range v {
			parts = append(parts, canonical(e))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, canonical(name)+":"+canonical(v[name]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v) // true, false
}

func aggregate(docs []Document, c query.Column) any {
	if c.Path == nil {
		return float64(len(docs))
	}
	var values []any
	for _, d := range docs {
		if v := one(d.Root, c.Path); v != absent {
			values = append(values, v)
		}
	}
	if c.Func == query.Count {
		return float64(len(values))
	}
	sum := 0.0
	for _, v := range values {
		f, ok := v.(float64)
		if !ok && (c.Func == query.Sum || c.Func == query.Avg) || kind(v) > 4 {
			return absent
		}
		sum += f
	}
	switch {
	case c.Func == query.Sum:
		return sum
	case len(values) == 0:
		return absent
	case c.Func == query.Avg:
		return sum / float64(len(values))
	}
	slices.SortFunc(values, Compare)
	if c.Func == query.Min {
		return values[0]
	}
	return values[len(values)-1]
}
