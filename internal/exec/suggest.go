package exec

import (
	"slices"
	"strings"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
)

// suggest returns the patterns that the query could use and the index policy lacks, in
// order, and how documents would be found with them. It returns nothing if they would be
// found as they are now, which method says.
func (e *Execution) suggest(method string) (include []string, found string) {
	var policy index.Policy
	present := e.h.Policy()
	if present != nil {
		policy = present.Policy()
	}
	if include = e.lacking(present); len(include) == 0 || e.Select.Where.Never() {
		return nil, ""
	}
	policy.Include = append(policy.Include, include...)
	with, err := index.Compile(policy)
	if err != nil {
		return nil, "" // one of them is excluded
	}
	supposed := Execution{Query: e.Query, h: e.h, units: e.units}
	var groups *query.Grouper
	if e.Select.Grouped() {
		groups = e.Select.Grouper()
	}
	supposed.planBy(with, groups)
	if found = supposed.method(); found == method {
		return nil, ""
	}
	return include, found
}

// lacking returns the patterns for the conditions of the query, for its groups and, if it
// has a limit, for its order that a policy does not cover. A nil policy covers nothing.
func (e *Execution) lacking(policy *index.Compiled) []string {
	var include []string
	want := func(of query.Path, containersToo bool) {
		var scalars, containers bool
		path := termset.PathOf(of)
		if policy != nil {
			scalars, containers = policy.Covers(path)
		}
		switch text := path.String(); {
		case containersToo && !(scalars && containers):
			include = append(include, text+"/*")
		case !scalars:
			include = append(include, text+"/?")
		}
	}
	var conditions func(f *query.Filter)
	conditions = func(f *query.Filter) {
		for _, s := range f.Sub {
			conditions(s)
		}
		switch f.Op {
		case query.Eq, query.Ne, query.In, query.Range, query.Prefix:
			want(f.Path, false)
		case query.ArrayContains:
			want(append(slices.Clone(f.Path), jsondoc.Step{Element: true}), false)
		case query.Exists:
			want(f.Path, true)
		case query.IsKind:
			want(f.Path, f.Kinds&termset.ContainerKinds != 0)
		}
	}
	conditions(e.Select.Where)
	switch {
	case e.Select.Grouped():
		if path, ok := e.Select.Grouper().OnlyPath(); ok && path != nil {
			want(path, false)
		}
	case len(e.Select.OrderBy) > 0 && e.bounded():
		want(e.Select.OrderBy[0].Path, true)
	}
	slices.Sort(include)
	include = slices.Compact(include)
	sorted := slices.Clone(include)
	return slices.DeleteFunc(include, func(pattern string) bool { // /a/* has /a/?
		whole, scalar := strings.CutSuffix(pattern, "?")
		if scalar {
			_, scalar = slices.BinarySearch(sorted, whole+"*")
		}
		return scalar
	})
}
