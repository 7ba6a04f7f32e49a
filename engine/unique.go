package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// A unique key is kept by claims. A claim is a version beside the items of its logical
// partition, under an id that no item can have: the number of the unique key and a hash
// of the values. Its body is the id of the item that has the values. The record that
// writes or deletes the item also writes or deletes the claim. So after each crash the
// claim is there if its item is. A claim comes along with every flush, merge and split,
// and goes with its logical partition. One point read finds whether values are taken.
// Readers pass over claims.

const (
	maxUniqueKeys  = 10
	maxUniquePaths = 16
)

// claimID is the id of a claim: the mark, the number of the unique key and the
// first bytes of the SHA-256 of the values, each with its type.
type claimID [18]byte

// isClaim says whether the key is that of a claim. Without unique keys none is: the ids
// of an opaque container may be any bytes.
func (c *Container) isClaim(k *item.Key) bool {
	return c.unique != nil && k.Marked()
}

// UniqueKeyError tells which unique key is taken, and by which item; it matches
// ErrUniqueKey.
type UniqueKeyError struct {
	Paths  []string
	Holder string // id of the item that has the values
}

// Error implements error.
func (e *UniqueKeyError) Error() string {
	return fmt.Sprintf("%v: item %q has these values at %s", ErrUniqueKey, e.Holder, strings.Join(e.Paths, ", "))
}

// Unwrap returns ErrUniqueKey.
func (e *UniqueKeyError) Unwrap() error { return ErrUniqueKey }

// uniqueKeys are the unique keys of a container, made ready. They are immutable.
type uniqueKeys struct {
	paths    [][]string
	slots    [][]int // of the selector, for each path
	selector *jsondoc.Selector
	values   int // slots in all
}

func cloneUnique(keys [][]string) (clone [][]string) {
	for _, paths := range keys {
		clone = append(clone, slices.Clone(paths))
	}
	return clone
}

// compileUnique makes the unique keys of a definition ready; nil: there are none.
func compileUnique(d *ContainerDef) (*uniqueKeys, error) {
	if len(d.UniqueKeys) == 0 {
		return nil, nil
	}
	if d.Kind == Opaque {
		return nil, errors.New("unique keys: documents of an opaque container are not read")
	}
	if n := len(d.UniqueKeys); n > maxUniqueKeys {
		return nil, fmt.Errorf("%d unique keys: at most %d", n, maxUniqueKeys)
	}
	u := &uniqueKeys{paths: cloneUnique(d.UniqueKeys)}
	var all []jsondoc.Path
	slot := make(map[string]int)
	for _, paths := range u.paths {
		if n := len(paths); n == 0 || n > maxUniquePaths {
			return nil, fmt.Errorf("a unique key of %d paths: between 1 and %d", n, maxUniquePaths)
		}
		var slots []int
		for _, text := range paths {
			p, err := jsondoc.ParsePath(text)
			if err != nil {
				return nil, fmt.Errorf("unique key: %w", err)
			}
			if slices.ContainsFunc(p, func(s jsondoc.Step) bool { return s.Element }) {
				return nil, fmt.Errorf("unique key: path %q leads to elements of arrays", text)
			}
			name := p.String()
			if _, ok := slot[name]; !ok {
				slot[name] = len(all)
				all = append(all, p)
			}
			if slices.Contains(slots, slot[name]) {
				return nil, fmt.Errorf("unique key: path %q is listed twice", text)
			}
			slots = append(slots, slot[name])
		}
		u.slots = append(u.slots, slots)
	}
	u.selector, u.values = jsondoc.NewSelector(all), len(all)
	return u, nil
}

// claimScratch is what finding the claims of a document needs.
type claimScratch struct {
	values []jsondoc.Value
	text   []byte
	tuple  []byte
}

var claimScratches = sync.Pool{New: func() any { return new(claimScratch) }}

// claims appends the claims of a document, one for each unique key.
func (u *uniqueKeys) claims(dst []claimID, doc []byte) []claimID {
	s := claimScratches.Get().(*claimScratch)
	defer claimScratches.Put(s)
	s.values = slices.Grow(s.values[:0], u.values)[:u.values]
	clear(s.values)
	u.selector.Select(doc, func(slot int, v jsondoc.Value) { s.values[slot] = v })
	for n, slots := range u.slots {
		s.tuple = s.tuple[:0]
		for _, slot := range slots {
			s.add(&s.values[slot])
		}
		id := claimID{item.ClaimMark, byte(n)}
		sum := sha256.Sum256(s.tuple)
		copy(id[2:], sum[:])
		dst = append(dst, id)
	}
	clear(s.values) // they point into the document
	return dst
}

// add appends a value to the tuple, so that tuples are equal only if their values are:
// numbers are doubles, texts have their lengths, arrays and objects are as they are
// written, without white space.
func (s *claimScratch) add(v *jsondoc.Value) {
	kind := v.Kind
	if kind == jsondoc.KindUndefined {
		kind = jsondoc.KindNull
	}
	s.tuple = append(s.tuple, byte(kind))
	text := v.Text
	switch kind {
	case jsondoc.KindNull:
		return
	case jsondoc.KindNumber:
		s.tuple = binary.BigEndian.AppendUint64(s.tuple, math.Float64bits(v.Number()))
		return
	case jsondoc.KindString:
		text = v.Bytes(&s.text)
	case jsondoc.KindArray, jsondoc.KindObject:
		var b bytes.Buffer
		if json.Compact(&b, text) == nil {
			text = b.Bytes()
		}
	}
	s.tuple = binary.AppendUvarint(s.tuple, uint64(len(text)))
	s.tuple = append(s.tuple, text...)
}
