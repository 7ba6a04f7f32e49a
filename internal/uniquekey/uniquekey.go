// Package uniquekey keeps unique keys: it derives the claims of documents on them, and
// makes the reservations of batches.
//
// A unique key is kept by claims. A claim is a version beside the items of its logical
// partition, under an id that no item can have: the number of the unique key and a hash
// of the values. Its body is the id of the item that has the values. The record that
// writes or deletes the item also writes or deletes the claim. So after each crash the
// claim is there if its item is. A claim comes along with every flush, merge and split,
// and goes with its logical partition. One point read finds whether values are taken.
// Readers pass over claims.
//
// Invariants:
//
//  1. Documents have equal claims if and only if their values are equal, however they are
//     written (but for a collision of SHA-256).
//  2. After a batch, each live item has its claims, and no claim has two live items.
//  3. A Reservation is checked under the commit lock against what was looked up. It
//     takes no lock itself.
package uniquekey

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

const (
	maxKeys  = 10
	maxPaths = 16
)

// ClaimID is the id of a claim: item.ClaimMark, the number of the unique key and the
// first bytes of the SHA-256 of the values, each with its type.
type ClaimID [18]byte

// Keys are the unique keys of a container, made ready. They are immutable.
type Keys struct {
	paths    [][]string
	slots    [][]int // of the selector, for each path
	selector *jsondoc.Selector
	values   int // slots in all
}

// Clone returns a copy of unique keys that shares nothing with them.
func Clone(keys [][]string) (clone [][]string) {
	for _, paths := range keys {
		clone = append(clone, slices.Clone(paths))
	}
	return clone
}

// Compile makes unique keys ready, each of which is a list of paths.
func Compile(keys [][]string) (*Keys, error) {
	if n := len(keys); n > maxKeys {
		return nil, fmt.Errorf("%d unique keys: at most %d", n, maxKeys)
	}
	k := &Keys{paths: Clone(keys)}
	var all []jsondoc.Path
	slot := make(map[string]int)
	for _, paths := range k.paths {
		if n := len(paths); n == 0 || n > maxPaths {
			return nil, fmt.Errorf("a unique key of %d paths: between 1 and %d", n, maxPaths)
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
		k.slots = append(k.slots, slots)
	}
	k.selector, k.values = jsondoc.NewSelector(all), len(all)
	return k, nil
}

// Len returns the number of unique keys.
func (k *Keys) Len() int { return len(k.paths) }

// Paths returns the paths of the unique key on which the claim is.
func (k *Keys) Paths(id ClaimID) []string { return k.paths[id[1]] }

// scratch is what finding the claims of a document needs.
type scratch struct {
	values []jsondoc.Value
	text   []byte
	tuple  []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// bodies are buffers for documents that are looked up.
var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Claims appends the ids of a document's claims, one for each unique key.
func (k *Keys) Claims(dst []ClaimID, doc []byte) []ClaimID {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.values = slices.Grow(s.values[:0], k.values)[:k.values]
	clear(s.values)
	k.selector.Select(doc, func(slot int, v jsondoc.Value) { s.values[slot] = v })
	for n, slots := range k.slots {
		s.tuple = s.tuple[:0]
		for _, slot := range slots {
			s.add(&s.values[slot])
		}
		id := ClaimID{item.ClaimMark, byte(n)}
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
func (s *scratch) add(v *jsondoc.Value) {
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
