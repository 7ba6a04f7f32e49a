package gateway

import (
	"encoding/json"
	"strings"

	"github.com/cleavestore/cleave/internal/sql"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// A computed property of a container is an expression that queries use like a member of the
// document. SELECT * does not show it, and no document has it. _self and _attachments, which
// are not stored, are found in the same way. The gateway puts the expressions in
// the place of the names before the store reads the query.

type computedProperty struct {
	Name  string `json:"name"`
	Query string `json:"query"` // SELECT VALUE expression FROM c
}

// maxComputed is how many computed properties a container has at most.
const maxComputed = 20

// checkComputed checks the computed properties of a definition and keeps them ready.
func (p *containerProperties) checkComputed() *failure {
	if len(p.ComputedProperties) == 0 || string(p.ComputedProperties) == "null" {
		return nil
	}
	var list []computedProperty
	if err := json.Unmarshal(p.ComputedProperties, &list); err != nil {
		return badf("computedProperties: %v", err)
	}
	if len(list) > maxComputed {
		return badf("computedProperties has %d properties, at most %d are possible", len(list), maxComputed)
	}
	all := make(map[string]string)
	for _, c := range list {
		switch {
		case c.Name == "" || c.Name == "id" || isSystemMember([]byte(c.Name)):
			return badf("computedProperties: a property cannot be named %q", clip(c.Name))
		case all[c.Name] != "":
			return badf("computedProperties: two properties are named %q", clip(c.Name))
		}
		for _, path := range p.PartitionKey.Paths {
			if path == "/"+c.Name {
				return badf("computedProperties: %q is a path of the partition key", clip(c.Name))
			}
		}
		all[c.Name] = c.Query
	}
	for name, text := range all {
		uses, err := sql.CheckComputed(text)
		if err != nil {
			return badf("computedProperties: %s: %v", clip(name), err)
		}
		for _, other := range uses {
			if all[other] != "" {
				return badf("computedProperties: %s uses the computed property %s", clip(name), clip(other))
			}
		}
	}
	return nil
}

// computed returns the expressions that stand for names of no stored member.
func (k *container) computed(text string) map[string]string {
	var all map[string]string
	add := func(name, query string) {
		if all == nil {
			all = make(map[string]string)
		}
		all[name] = query
	}
	if strings.Contains(text, memberSelf) {
		add(memberSelf, "SELECT VALUE CONCAT('"+k.self()+"docs/', c._rid, '/') FROM c")
	}
	if strings.Contains(text, memberAttachments) {
		add(memberAttachments, "SELECT VALUE 'attachments/' FROM c")
	}
	if len(k.record.Definition.ComputedProperties) > 0 {
		var list []computedProperty
		if json.Unmarshal(k.record.Definition.ComputedProperties, &list) == nil { // it was checked
			for _, c := range list {
				if strings.Contains(text, c.Name) {
					add(c.Name, c.Query)
				}
			}
		}
	}
	return all
}

// parse reads a query over the items of the container.
func (k *container) parse(text string, parameters map[string]any) (*statement, error) {
	if computed := k.computed(text); computed != nil {
		tree, err := syntax.Parse(text)
		if err == nil {
			tree, err = sql.Substitute(text, tree, computed)
			if err != nil {
				return nil, badf("%v", err)
			}
			text = tree.String()
		}
		// A text with an error is refused below.
	}
	return parseStatement(text, parameters)
}
