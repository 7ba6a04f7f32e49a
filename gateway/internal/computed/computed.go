// Package computed has the computed properties of containers: expressions that queries use
// like members of the document. SELECT * does not show them, and no document has
// them. _self, _etag and _attachments, which are not stored, are found in the same way.
//
// Invariants:
//
//  1. A definition that Check accepts can be put into every query.
//  2. No expression uses another computed property, so one pass puts all in.
//  3. A text with a syntax error is returned as it is: who reads it says what is wrong.
package computed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/sql"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

type property struct {
	Name  string `json:"name"`
	Query string `json:"query"` // SELECT VALUE expression FROM c
}

// Most is how many computed properties a container has at most.
const Most = 20

const (
	self        = "_self"
	etag        = "_etag"
	attachments = "_attachments"
)

// Check checks the computed properties of a definition. They cannot be named like a path of the
// partition key or a system member.
func Check(definition json.RawMessage, keyPaths []string, isSystem func(name []byte) bool) error {
	if len(definition) == 0 {
		return nil
	}
	var list []property
	if err := json.Unmarshal(definition, &list); err != nil {
		return err
	}
	if len(list) > Most {
		return fmt.Errorf("%d properties, at most %d are possible", len(list), Most)
	}
	all := make(map[string]bool)
	for _, p := range list {
		if p.Name == "" || p.Name == "id" || isSystem([]byte(p.Name)) || slices.ContainsFunc(keyPaths, func(path string) bool { return slices.Equal(jsondoc.KeyPath(path), jsondoc.Path{{Name: p.Name}}) }) || all[p.Name] {
			return fmt.Errorf("a property cannot be named %q", jsondoc.Clip(p.Name))
		}
		all[p.Name] = true
	}
	for _, p := range list {
		uses, err := sql.CheckComputed(p.Query)
		if err != nil {
			return fmt.Errorf("%s: %w", jsondoc.Clip(p.Name), err)
		}
		for _, other := range uses {
			if all[other] {
				return fmt.Errorf("%s uses the computed property %s", jsondoc.Clip(p.Name), jsondoc.Clip(other))
			}
		}
	}
	return nil
}

// Put returns the text of a query with the expressions in the place of the names. path is
// that of the container, with which _self begins.
func Put(text string, definition json.RawMessage, path string) (string, error) {
	all := make(map[string]string)
	if mayName(text, self) {
		all[self] = "SELECT VALUE CONCAT('" + path + "docs/', c._rid, '/') FROM c"
	}
	if mayName(text, etag) {
		all[etag] = "SELECT VALUE DOCUMENTETAG(c) FROM c"
	}
	if mayName(text, attachments) {
		all[attachments] = "SELECT VALUE 'attachments/' FROM c"
	}
	if err := add(all, text, definition); err != nil {
		return text, err
	}
	if len(all) == 0 {
		return text, nil
	}
	tree, err := syntax.Parse(text)
	if err != nil || !names(tree, all) {
		return text, nil
	}
	if tree, err = sql.Substitute(text, tree, all); err != nil {
		return text, err
	}
	return tree.String(), nil
}

// PutIn is Put for the tree of the text, over documents that have their system members.
func PutIn(tree *syntax.Query, text string, definition json.RawMessage) (*syntax.Query, error) {
	all := make(map[string]string)
	if err := add(all, text, definition); err != nil {
		return nil, err
	}
	return sql.Substitute(text, tree, all)
}

// add adds the properties of a definition that a text may name.
func add(all map[string]string, text string, definition json.RawMessage) error {
	if len(definition) == 0 {
		return nil
	}
	var list []property
	if err := json.Unmarshal(definition, &list); err != nil {
		return err
	}
	for _, p := range list {
		if mayName(text, p.Name) {
			all[p.Name] = p.Query
		}
	}
	return nil
}

// mayName says whether a text may have a name: as it is, or in a string with escapes or doubled quotes.
func mayName(text, name string) bool {
	return strings.Contains(text, name) || strings.Contains(text, `\`) || strings.ContainsAny(name, `"'`)
}

// names says whether a query has a member with one of the names.
func names(q *syntax.Query, all map[string]string) (found bool) {
	q.Exprs(func(e syntax.Expr) {
		syntax.Walk(e, func(x syntax.Expr) bool {
			if m, ok := x.(*syntax.Member); ok {
				_, known := all[m.Name]
				found = found || known
			}
			return !found
		})
	})
	return found
}
