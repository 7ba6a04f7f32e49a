package gateway

import (
	"bytes"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/computed"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// statement is a query, with what the gateway needs to know of it.
type statement struct {
	q    engine.Query
	tree *syntax.Query // without parameters; nil: the text has paths that only the store knows

	text       string
	parameters map[string]any
}

// parse reads a query over the items of the container.
func (k *container) parse(text string, parameters map[string]any) (*statement, error) {
	text, err := computed.Put(text, k.record.Definition.ComputedProperties, k.self())
	s := &statement{text: text, parameters: parameters}
	if err == nil {
		s.q, err = engine.ParseQuery(text, parameters)
	}
	if err != nil {
		return nil, &failure{status: 400, msg: err.Error()}
	}
	tree, err := syntax.Parse(text)
	if err == nil {
		tree, err = tree.Bind(text, parameters)
	}
	if err == nil {
		s.tree = tree
	}
	return s, nil
}

// inCreationOrder returns the query with an ORDER BY of the resource id.
func (s *statement) inCreationOrder() (engine.Query, error) {
	if s.tree == nil {
		q := s.q
		q.OrderBy = []engine.QueryOrder{{Path: "/" + memberRID}}
		return q, nil
	}
	t := *s.tree
	t.OrderBy = []syntax.Order{{Expr: &syntax.Member{Of: &syntax.Ident{Name: t.From.Name}, Name: memberRID}}}
	return engine.ParseQuery(t.String(), s.parameters)
}

// mayOrder says whether results could be given in the order of creation: there is no other
// order, and each has one document.
func (s *statement) mayOrder() bool {
	if s.tree == nil {
		return len(s.q.OrderBy) == 0 && !s.q.Distinct && !s.grouped()
	}
	return len(s.tree.OrderBy) == 0 && !s.tree.Distinct && !s.grouped() && s.overDocuments() && len(s.tree.Joins) == 0
}

// overDocuments says whether FROM names the documents themselves.
func (s *statement) overDocuments() bool {
	if s.tree == nil {
		return true
	}
	if s.tree.From == nil || s.tree.From.In {
		return false
	}
	_, ok := s.tree.From.Collection.(*syntax.Ident)
	return ok
}

// documents says whether results are whole documents.
func (s *statement) documents() bool {
	if s.tree == nil {
		return s.q.Fields == nil
	}
	if !s.overDocuments() || len(s.tree.GroupBy) > 0 {
		return false
	}
	if s.tree.Star {
		return len(s.tree.Joins) == 0
	}
	return s.tree.Value && s.isRoot(s.tree.Items[0].Expr)
}

func (s *statement) isRoot(e syntax.Expr) bool {
	id, ok := e.(*syntax.Ident)
	return ok && s.tree.From != nil && id.Name == s.tree.From.Name
}

// grouped says whether results stand for several documents.
func (s *statement) grouped() bool {
	if s.tree == nil {
		if len(s.q.GroupBy) > 0 {
			return true
		}
		for _, f := range s.q.Fields {
			if f.Aggregate != 0 {
				return true
			}
		}
		return false
	}
	if len(s.tree.GroupBy) > 0 {
		return true
	}
	for _, item := range s.tree.Items {
		if eval.Aggregated(item.Expr) {
			return true
		}
	}
	return false
}

// limited says whether the query itself bounds the number of its results.
func (s *statement) limited() bool {
	return s.q.Offset > 0 || s.q.Limit > 0 || s.tree != nil && (s.tree.Top != nil || s.tree.Limit != nil)
}

// aggregated says whether the results of the query over several logical partitions are more
// than those of each, one after the other.
func (s *statement) aggregated() bool {
	if s.tree != nil && (len(s.tree.OrderBy) > 0 || s.tree.Distinct) {
		return true
	}
	return len(s.q.OrderBy) > 0 || s.q.Distinct || s.grouped() || s.limited()
}

// payloads says whether results have whole documents as their member payload, as those of
// rewritten queries have.
func (s *statement) payloads() bool {
	if s.tree == nil || s.tree.Value || !s.overDocuments() || s.grouped() || len(s.tree.Items) == 0 {
		return false
	}
	last := s.tree.Items[len(s.tree.Items)-1]
	return last.As == "payload" && s.isRoot(last.Expr)
}

// appendPayload appends a result whose last member, payload, is a whole document.
func (k *container) appendPayload(dst, row []byte, etag engine.ETag) []byte {
	var document []byte
	jsondoc.Members(row, func(name []byte, v jsondoc.Value) {
		document = nil
		if string(name) == "payload" && v.Kind == jsondoc.KindObject {
			document = v.Text
		}
	})
	if document == nil || !bytes.HasSuffix(row[:len(row)-1], document) {
		return append(dst, row...)
	}
	dst = append(dst, row[:len(row)-1-len(document)]...)
	return append(k.appendItem(dst, document, etag, 0), '}')
}
