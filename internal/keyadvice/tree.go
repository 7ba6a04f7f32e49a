package keyadvice

import (
	"errors"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// MaxDocument is the size of a document that the service takes, in bytes.
const MaxDocument = 2 << 20

// readBytes is the size of a document that is read at all.
const readBytes = 16 << 20

// reader validates documents.
type reader struct {
	scanner  jsondoc.Scanner
	idOnly   *jsondoc.Paths
	out      jsondoc.Doc
	noID     int64 // documents without an id, or with one that is refused
	tooLarge int64 // documents over MaxDocument
}

func newReader() *reader {
	paths, err := jsondoc.Compile([]string{"/id"})
	if err != nil {
		panic(err) // the path is a constant
	}
	return &reader{idOnly: paths}
}

// check returns an error for what is no document. A document that only lacks a
// proper id is one, and so is one that is too large; both are counted.
func (r *reader) check(doc []byte) error {
	err := r.scanner.Scan(doc, r.idOnly, jsondoc.Limits{MaxBytes: readBytes}, &r.out)
	switch {
	case errors.Is(err, jsondoc.ErrNoID), errors.Is(err, jsondoc.ErrBadID), errors.Is(err, jsondoc.ErrBadKey):
		r.noID++
	case errors.Is(err, jsondoc.ErrBadTTL):
	case err != nil:
		return err
	}
	if len(doc) > MaxDocument {
		r.tooLarge++
	}
	return nil
}

// tree is the members that a survey has met.
type tree struct{ nodes []treeNode }

type treeNode struct {
	members map[string]int // nodes by name
	slot    int            // of the value that ends here, -1: none does
}

func newTree() *tree { return &tree{nodes: []treeNode{{slot: -1}}} }

// member returns the node of a member of a node.
func (t *tree) member(at int, name string) int {
	if next, ok := t.nodes[at].members[name]; ok {
		return next
	}
	if t.nodes[at].members == nil {
		t.nodes[at].members = make(map[string]int)
	}
	next := len(t.nodes)
	t.nodes[at].members[name] = next
	t.nodes = append(t.nodes, treeNode{slot: -1})
	return next
}
