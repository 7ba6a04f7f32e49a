package index

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
)

// Policy says which values of documents are indexed. The zero value indexes
// nothing.
//
// A pattern is a path that ends in /? for the scalar there, or in /* for the
// value there and all that lies below it; /* alone is everything. The longest
// pattern that fits a value decides; of two of one length the one with ?. What
// no pattern fits is not indexed.
//
// Each element of Composite is a composite index: two or more paths whose values
// are indexed together, whether or not patterns include or exclude them.
type Policy struct {
	Include   []string          `json:"include,omitempty"`
	Exclude   []string          `json:"exclude,omitempty"`
	Composite [][]CompositePath `json:"composite,omitempty"`
}

// All is the policy that indexes everything.
func All() Policy { return Policy{Include: []string{"/*"}} }

// Empty says whether the policy includes nothing.
func (p Policy) Empty() bool { return len(p.Include) == 0 && len(p.Composite) == 0 }

// Clone returns a policy that shares no memory with p.
func (p Policy) Clone() Policy {
	out := Policy{Include: slices.Clone(p.Include), Exclude: slices.Clone(p.Exclude), Composite: slices.Clone(p.Composite)}
	for i, paths := range out.Composite {
		out.Composite[i] = slices.Clone(paths)
	}
	return out
}

// Compiled is a policy made ready. It is immutable.
type Compiled struct {
	policy     Policy
	root       *rule
	id         uint64
	composites []*Composite
	slots      int32                   // paths of composites
	density    atomic.Pointer[density] // of the documents of the last builder; nil: unknown
}

// rule is what the patterns say of the values at a path.
type rule struct {
	members map[string]*rule // by name
	element *rule
	exact   verdict // of scalars here, by a pattern with ?
	below   verdict // of all here and below, by a pattern with *
	slot    int32   // 1 + where a builder keeps the value here for composite indexes; 0: it is in none
}

type verdict int8

const (
	undecided verdict = iota
	included
	excluded
)

// Compile checks a policy and makes it ready.
func Compile(p Policy) (*Compiled, error) {
	c := &Compiled{policy: p.Clone(), root: new(rule)}
	if len(p.Include) == 0 && len(p.Exclude) > 0 && len(p.Composite) == 0 {
		return nil, fmt.Errorf("index policy: it excludes paths and includes none")
	}
	for _, pattern := range p.Include {
		if err := c.add(pattern, included); err != nil {
			return nil, err
		}
	}
	for _, pattern := range p.Exclude {
		if err := c.add(pattern, excluded); err != nil {
			return nil, err
		}
	}
	if err := c.addComposites(); err != nil {
		return nil, err
	}
	if !p.Empty() {
		include, exclude := slices.Sorted(slices.Values(p.Include)), slices.Sorted(slices.Values(p.Exclude))
		text, err := json.Marshal(Policy{include, exclude, c.canonicalComposites()})
		if err != nil {
			return nil, fmt.Errorf("index policy: %w", err)
		}
		sum := sha256.Sum256(text)
		c.id = max(1, binary.LittleEndian.Uint64(sum[:]))
	}
	return c, nil
}

func (c *Compiled) add(pattern string, v verdict) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("index path %q: %w", pattern, fmt.Errorf(format, args...))
	}
	steps, err := splitPath(pattern)
	if err != nil {
		return refuse("%w", err)
	}
	if len(steps) == 0 || !steps[len(steps)-1].wild {
		return refuse("must end in /? for the scalar at it, or in /* for all below it")
	}
	last := len(steps) - 1
	at, length := c.root, 0
	for _, s := range steps[:last] {
		if s.wild {
			return refuse("only the end may be %s; a name of that kind is put in quotes", s.name)
		}
		length += len(s.name) + 2
		at = at.step(s)
	}
	if length > maxPath {
		return refuse("longer than %d bytes", maxPath)
	}
	slot := &at.below
	if steps[last].name == "?" {
		slot = &at.exact
		if last == 0 {
			return refuse("a document is no scalar")
		}
	}
	if *slot != undecided {
		return refuse("is listed twice")
	}
	*slot = v
	return nil
}

// step returns the rule of a step, a new one if there is none.
func (r *rule) step(s pathStep) *rule {
	if s.element {
		if r.element == nil {
			r.element = new(rule)
		}
		return r.element
	}
	next := r.members[s.name]
	if next == nil {
		if r.members == nil {
			r.members = make(map[string]*rule)
		}
		next = new(rule)
		r.members[s.name] = next
	}
	return next
}

// Policy returns the policy that was compiled.
func (c *Compiled) Policy() Policy { return c.policy.Clone() }

// Fingerprint identifies the policy: two with the same patterns, in whichever
// order, have the same; 0 is that of the empty one.
func (c *Compiled) Fingerprint() uint64 { return c.id }

// Covers says whether scalars at a path are indexed, and whether objects and
// arrays at it are, as such. A query asks it before it takes the absence of a
// term for the absence of a value. The document as a whole is never a term.
func (c *Compiled) Covers(p Path) (scalars, containers bool) {
	at := scope{rule: c.root, below: c.root.below}
	for _, step := range p.split() {
		if step == "" {
			at = at.element()
		} else {
			at = at.member([]byte(stepName(step)))
		}
	}
	if p.steps == "" || len(p.steps) > maxPath {
		return false, false
	}
	return at.scalars(), at.containers()
}

// scope is a place in a document as the policy sees it.
type scope struct {
	rule  *rule   // nil: no pattern leads further
	below verdict // of the longest pattern with * so far
}

func (s scope) to(r *rule) scope {
	if r == nil {
		return scope{below: s.below}
	}
	if r.below != undecided {
		return scope{r, r.below}
	}
	return scope{r, s.below}
}

func (s scope) member(name []byte) scope {
	if s.rule == nil {
		return s
	}
	return s.to(s.rule.members[string(name)])
}

func (s scope) element() scope {
	if s.rule == nil {
		return s
	}
	return s.to(s.rule.element)
}

func (s scope) scalars() bool {
	if s.rule != nil && s.rule.exact != undecided {
		return s.rule.exact == included
	}
	return s.below == included
}

func (s scope) containers() bool { return s.below == included }

// dead says that nothing here or below is indexed.
func (s scope) dead() bool { return s.rule == nil && s.below != included }
