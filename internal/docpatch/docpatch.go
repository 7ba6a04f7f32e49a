// Package docpatch changes parts of a JSON document: edits that are made in order, all or
// none, if conditions on the document before them are true.
//
// Invariants:
//
//  1. A document is changed by all edits or by none, and never in place.
//  2. An edit that cannot be made is named by its index, kind and path. The first error
//     counts, whether it is met while the patch is built or while it is applied.
//  3. A condition that is undefined for the document is not true.
//
// The result is JSON, but a container may refuse it: for its size, its depth, or what its
// id, ttl or key became. A Patch that is not changed any more is safe for concurrent use.
package docpatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
)

// MaxEdits is how many edits a patch may have.
const MaxEdits = 10

var (
	// ErrCondition says that a condition is not true for the document.
	ErrCondition = errors.New("the condition of the patch is not true")
	// ErrEmpty says that the patch has no edits.
	ErrEmpty = errors.New("the patch is empty")
)

// Error tells which edit could not be made.
type Error struct {
	Index int    // of the edit, from 0
	Op    string // its kind
	Path  string
	Err   error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("change %d of the patch, %s %s: %v", e.Index+1, e.Op, e.Path, e.Err)
}

// Unwrap returns fault.ErrInvalid and the cause.
func (e *Error) Unwrap() []error { return []error{fault.ErrInvalid, e.Err} }

// Patch is a list of edits. The zero Patch has none.
type Patch struct {
	edits []jsondoc.Edit
	when  []*query.Program
	err   error // the first one that was met while the patch was built
}

// Len returns the number of edits.
func (p *Patch) Len() int { return len(p.edits) }

// Value adds an edit that puts a value in a place. Unlike json.Marshal it escapes nothing for
// HTML: the texts of a json.RawMessage stay as they are.
func (p *Patch) Value(kind jsondoc.EditKind, path string, value any) {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	err := to.Encode(value)
	p.add(jsondoc.Edit{Kind: kind, Path: path, Value: bytes.TrimSuffix(text.Bytes(), []byte{'\n'})}, err)
}

// Remove adds an edit that removes a value.
func (p *Patch) Remove(path string) { p.add(jsondoc.Edit{Kind: jsondoc.EditRemove, Path: path}, nil) }

// Increment adds an edit that adds to a number.
func (p *Patch) Increment(path string, by float64) {
	var err error
	if math.IsNaN(by) || math.IsInf(by, 0) {
		err = errors.New("not a number")
	}
	p.add(jsondoc.Edit{Kind: jsondoc.EditIncrement, Path: path, By: by}, err)
}

// Move adds an edit that moves a value.
func (p *Patch) Move(from, path string) {
	p.add(jsondoc.Edit{Kind: jsondoc.EditMove, From: from, Path: path}, jsondoc.CheckPath(from))
}

func (p *Patch) add(e jsondoc.Edit, err error) {
	if err == nil {
		err = jsondoc.CheckPath(e.Path)
	}
	if err == nil && len(p.edits) == MaxEdits {
		err = fmt.Errorf("at most %d changes", MaxEdits)
	}
	if err != nil && p.err == nil {
		p.err = &Error{Index: len(p.edits), Op: e.Kind.String(), Path: e.Path, Err: err}
	}
	p.edits = append(p.edits, e)
}

// When adds a condition. err says why it cannot be used, if it is known already.
func (p *Patch) When(f *query.Filter, err error) {
	if err == nil {
		err = f.Check()
	}
	if err == nil {
		p.when = append(p.when, query.Compile(f.Simplify(), nil))
	} else if p.err == nil {
		p.err = fmt.Errorf("condition of the patch: %w", err)
	}
}

// Check returns an error if the patch cannot be used.
func (p *Patch) Check() error {
	if p.err == nil && len(p.edits) == 0 {
		return ErrEmpty
	}
	return p.err
}

// Apply returns a document with the edits, in new memory. The document is one that a
// jsondoc.Scanner has accepted. seq is the sequence of its version, which a condition may ask
// for; 0: it has none yet. ErrCondition says that a condition is not true; a condition that
// cannot be computed gives another error: that of ctx, if the test ends with it.
func (p *Patch) Apply(ctx context.Context, doc []byte, seq uint64) ([]byte, error) {
	for _, when := range p.when {
		e := when.Evaluator()
		if e.Ctx, e.Seq = ctx, seq; !e.Match(doc) {
			return nil, cmp.Or(e.Err, ErrCondition)
		}
	}
	for i := range p.edits {
		e := &p.edits[i]
		next, err := e.Apply(doc)
		if err != nil {
			return nil, &Error{Index: i, Op: e.Kind.String(), Path: e.Path, Err: err}
		}
		doc = next
	}
	return doc, nil
}
