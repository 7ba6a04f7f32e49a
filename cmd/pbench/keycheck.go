package main

import (
	"iter"
	"math"
	"strconv"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/partmap"
)

// keyCheck looks at the partition keys of documents that are loaded for what is
// legal and hardly meant: a path that no document has, whole numbers that doubles
// do not tell apart.
type keyCheck struct {
	paths    []string
	compiled *jsondoc.Paths
	scanner  jsondoc.Scanner
	doc      jsondoc.Doc
	seen     int64
	has      []bool // by path: a document has it
	large    string // a path with a number from 2^53 on, "" if none was met
}

// newKeyCheck returns nil where the key is made by a rule.
func newKeyCheck(paths []string) *keyCheck {
	compiled, err := jsondoc.Compile(paths)
	if err != nil || len(paths) == 0 {
		return nil
	}
	return &keyCheck{paths: paths, compiled: compiled, has: make([]bool, len(paths))}
}

// checkedNumbers is how many documents are looked at for large numbers.
const checkedNumbers = 100_000

// docs passes documents on and looks at them.
func (k *keyCheck) docs(docs iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	if k == nil {
		return docs
	}
	return func(yield func([]byte, error) bool) {
		for doc, err := range docs {
			if err == nil {
				k.add(doc)
			}
			if !yield(doc, err) {
				return
			}
		}
	}
}

func (k *keyCheck) add(doc []byte) {
	if k.seen++; k.seen > checkedNumbers && k.missing() < 0 {
		return
	}
	if k.scanner.Scan(doc, k.compiled, jsondoc.Limits{MaxBytes: harness.MaxItemBytes}, &k.doc) != nil {
		return // it is refused
	}
	at := 0
	for i := range k.paths {
		end := partmap.PrefixLen(k.doc.PK, i+1)
		component, err := partmap.FromEncoded(k.doc.PK[at:end])
		at = end
		if err != nil || component == partmap.Undefined() {
			continue
		}
		k.has[i] = true
		if k.large == "" {
			if x, err := strconv.ParseFloat(component.String(), 64); err == nil && math.Abs(x) >= 1<<53 {
				k.large = k.paths[i]
			}
		}
	}
}

// missing returns the index of a path that no document has, -1 if there is none.
func (k *keyCheck) missing() int {
	for i, has := range k.has {
		if !has {
			return i
		}
	}
	return -1
}

// warn says what was found.
func (k *keyCheck) warn(env *harness.Environment) {
	if k == nil || k.seen == 0 {
		return
	}
	if i := k.missing(); i >= 0 && len(k.paths) == 1 {
		env.Notef("warning: no document has %s, the partition key: all are in one logical partition, which no split divides", k.paths[i])
	} else if i >= 0 {
		env.Notef("warning: no document has %s, a level of the partition key", k.paths[i])
	}
	if k.large != "" {
		env.Notef("warning: %s has whole numbers of 2^53 or more: numbers are doubles, so neighbours get one key; write them as strings", k.large)
	}
}
