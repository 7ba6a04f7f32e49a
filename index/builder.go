package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/vfs"
)

// DefaultLimit is the memory in bytes at which a builder without another limit
// writes what it has to a temporary file.
const DefaultLimit = 32 << 20

// Builder makes the index of a file: of documents, in the order of ordinals, of
// the indexes of other files whose versions the file takes over, or of both.
//
//	documents ── scan ── terms and pairs (term, ordinal) ── sort ─┐
//	            (past the limit: to a temporary file, as an index)├─ merge ── writer
//	indexes of other files, ordinals exchanged ───────────────────┘
//
// It is not safe for concurrent use.
type Builder struct {
	// Breathe, unless it is nil, is called after each some 50 µs of work in
	// WriteTo, and where Add writes to the temporary file. An error ends them.
	Breathe func() error

	c     *Compiled
	limit int64
	temp  func() (vfs.File, error)
	work  int // since Breathe was called

	tree      pathTree
	stack     []openNode
	text      []byte
	composite compositeBuilder
	ordinal   uint32

	*builderMemory
	versions versionTerms
	inputs   []input
	spill    vfs.File
	spilled  []spilledRun
	spillEnd int64
}

// builderMemory is what a builder gives to the next one: fresh memory is dear.
type builderMemory struct {
	terms []builtTerm
	table []uint64 // tag 32 | index of term + 1, 32; open addressing
	texts []byte   // values of strings
	pairs []uint64 // term 32 | ordinal 32

	// Of sorting.
	order, place, ordinals []uint32
	keys                   []sortKey
}

var builderMemories = sync.Pool{New: func() any { return new(builderMemory) }}

// builtTerm is a term of the documents.
type builtTerm struct {
	hash  uint64
	value uint64 // of a number its bits, of a string where it begins in texts
	path  int32
	last  uint32 // newest ordinal that has it
	count uint32
	size  uint16 // of a string or of components
	kind  Type
}

// openNode is an object or array of a document that is being read.
type openNode struct {
	node   int32
	before int32 // member before
	array  bool
}

// versionTerms are the terms that say something of versions.
type versionTerms struct {
	deleted, older []uint32
	expires        []expiry
}

type expiry struct {
	at      int64
	ordinal uint32
}

// input is the index of another file.
type input struct {
	r     *Reader
	remap Remap
}

// Remap says which ordinals versions get that come from another file.
type Remap struct {
	First uint32   // ordinal, in the file they come from, of the first of New
	New   []uint32 // ordinals that they get, rising; or Dropped
}

// Dropped is what Remap has for a version that is not taken over.
const Dropped = math.MaxUint32

// exchange makes ordinals, which rise, the new ones, in place.
func (r *Remap) exchange(ordinals []uint32) []uint32 {
	if r.New == nil {
		return ordinals
	}
	kept := ordinals[:0]
	for _, o := range ordinals {
		if i := o - r.First; o >= r.First && uint64(i) < uint64(len(r.New)) && r.New[i] != Dropped {
			kept = append(kept, r.New[i])
		}
	}
	return kept
}

type spilledRun struct{ off, size int64 }

// ErrTooLarge is what Add returns if documents do not find place in the memory of
// a builder that has no temporary file. It is of no use then.
var ErrTooLarge = errors.New("index: documents have more terms than find place in memory")

// NewBuilder returns a builder for a policy. temp makes a temporary file, which
// the builder closes, for what does not find place in limit bytes of memory (0:
// DefaultLimit). If it is nil everything is kept in memory, and limit, unless it is
// 0, is where Add fails with ErrTooLarge.
func NewBuilder(c *Compiled, limit int64, temp func() (vfs.File, error)) *Builder {
	if limit == 0 {
		if limit = DefaultLimit; temp == nil {
			limit = math.MaxInt64
		}
	}
	return &Builder{c: c, limit: limit, temp: temp, tree: newPathTree(c), builderMemory: builderMemories.Get().(*builderMemory)}
}

// Note adds what is said of a version as such: that it is deleted, that it
// expires, and that it is older than the one before it, of the same item.
func (b *Builder) Note(ordinal uint32, v *item.Version, older bool) {
	if !v.IsDocument() {
		b.versions.deleted = append(b.versions.deleted, ordinal)
	}
	if older {
		b.versions.older = append(b.versions.older, ordinal)
	}
	if v.Expires != 0 {
		b.versions.expires = append(b.versions.expires, expiry{v.Expires, ordinal})
	}
}

// Take adds the terms of the versions that come from another file. The reader is
// used until WriteTo returns.
func (b *Builder) Take(r *Reader, remap Remap) {
	b.inputs = append(b.inputs, input{r, remap})
}

// Add adds the terms of a document. The ordinals of documents rise.
func (b *Builder) Add(ordinal uint32, doc []byte) error {
	b.ordinal = ordinal
	if len(b.c.composites) == 0 {
		b.scan(doc)
	} else {
		b.composite.begin(b.c)
		b.scan(doc)
		b.addComposites()
	}
	if b.Memory() < b.limit {
		return nil
	}
	if b.temp == nil {
		return ErrTooLarge
	}
	return b.spillTerms()
}

// Memory returns about how many bytes the builder holds.
func (b *Builder) Memory() int64 {
	const termBytes = 40 + 8 // with its share of what sorts them
	return 12*int64(len(b.pairs)) + termBytes*int64(len(b.terms)) + 8*int64(len(b.table)) + int64(len(b.texts)) + b.tree.bytes
}

// breathWork is the work between two calls of Breathe, in ordinals.
const breathWork = 4 << 10

// worked counts work, in about as many ordinals.
func (b *Builder) worked(n int) error {
	if b.work += n; b.work < breathWork || b.Breathe == nil {
		return nil
	}
	b.work = 0
	return b.Breathe()
}

// scan reads a document.
func (b *Builder) scan(doc []byte) {
	w := jsondoc.Walk(doc)
	if w.Next().Kind != jsondoc.KindObject {
		return
	}
	b.stack = append(b.stack[:0], openNode{})
	for len(b.stack) > 0 {
		top := &b.stack[len(b.stack)-1]
		v := w.Next()
		if v.Kind == jsondoc.KindUndefined {
			b.stack = b.stack[:len(b.stack)-1]
			continue
		}
		var at int32
		if top.array {
			at = b.tree.elementOf(top.node)
		} else {
			if v.Kind != jsondoc.KindString {
				return // no document
			}
			at = b.tree.memberOf(top.node, top.before, v.Bytes(&b.text))
			top.before = at
			v = w.Next()
		}
		n := &b.tree.nodes[at]
		if n.slot != 0 {
			b.composite.set(n.slot-1, &v, &b.text)
		}
		switch v.Kind {
		case jsondoc.KindString:
			if n.scalars {
				b.addString(at, v.Bytes(&b.text))
			}
		case jsondoc.KindNumber:
			if n.scalars {
				b.addNumber(at, numberBits(v.Number()))
			}
		case jsondoc.KindBool:
			if n.scalars && v.Bool() {
				b.addFixed(n, at, fixedTrue, Bool, 1)
			} else if n.scalars {
				b.addFixed(n, at, fixedFalse, Bool, 0)
			}
		case jsondoc.KindNull:
			if n.scalars {
				b.addFixed(n, at, fixedNull, Null, 0)
			}
		case jsondoc.KindArray, jsondoc.KindObject:
			array := v.Kind == jsondoc.KindArray
			if n.containers {
				if array {
					b.addFixed(n, at, fixedArray, Array, 0)
				} else {
					b.addFixed(n, at, fixedObject, Object, 0)
				}
			}
			if n.dead {
				w.Leave()
			} else {
				b.stack = append(b.stack, openNode{node: at, array: array})
			}
		default:
			return // no document
		}
	}
}

// Keys of the hash of terms: secret, so that no documents can be made in which
// many collide.
var (
	hashSeed = rand.Uint64()
	hashMul  = rand.Uint64() | 1
)

func mix(h, w uint64) uint64 {
	hi, lo := bits.Mul64(h^w, hashMul)
	return hi ^ lo
}

// addFixed adds a term of a type with few values.
func (b *Builder) addFixed(n *pathNode, path int32, place int, kind Type, value uint64) {
	if n.fixed[place] == 0 {
		b.terms = append(b.terms, builtTerm{value: value, path: path, kind: kind})
		n.terms++
		n.fixed[place] = uint32(len(b.terms))
	}
	b.note(n.fixed[place] - 1)
}

// addNumber adds the term of a number.
func (b *Builder) addNumber(path int32, value uint64) {
	h := max(1, mix(hashSeed^uint64(path), value))
	i, found := b.find(h, func(t *builtTerm) bool { return t.path == path && t.kind == Number && t.value == value })
	if !found {
		b.terms = append(b.terms, builtTerm{hash: h, value: value, path: path, kind: Number})
		b.tree.nodes[path].terms++
	}
	b.note(i)
}

// addString adds the term of a string.
func (b *Builder) addString(path int32, text []byte) {
	if len(text) > MaxString {
		sum := crc32.Checksum(text, castagnoli)
		b.text = binary.BigEndian.AppendUint32(append(b.text[:0], text[:MaxString]...), sum)
		text = b.text
	}
	b.addText(path, String, text)
}

// addText adds the term of the bytes of a string, or of components.
func (b *Builder) addText(path int32, kind Type, text []byte) {
	h := mix(hashSeed, uint64(path)<<8|uint64(kind))
	rest := text
	for ; len(rest) >= 8; rest = rest[8:] {
		h = mix(h, binary.LittleEndian.Uint64(rest))
	}
	w := uint64(len(text)) << 56
	for i, c := range rest {
		w |= uint64(c) << (8 * i)
	}
	h = max(1, mix(h, w))
	i, found := b.find(h, func(t *builtTerm) bool {
		return t.path == path && t.kind == kind && int(t.size) == len(text) && bytes.Equal(b.texts[t.value:][:t.size], text)
	})
	if !found {
		b.terms = append(b.terms, builtTerm{hash: h, value: uint64(len(b.texts)), path: path, kind: kind, size: uint16(len(text))})
		b.texts = append(b.texts, text...)
		b.tree.nodes[path].terms++
	}
	b.note(i)
}

// find returns the index of the term with a hash for which same holds; if there
// is none, a place for the next term.
func (b *Builder) find(h uint64, same func(*builtTerm) bool) (uint32, bool) {
	if 4*len(b.terms) >= 3*len(b.table) {
		b.growTable()
	}
	mask := uint64(len(b.table) - 1)
	tag := h &^ (1<<32 - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		slot := b.table[at]
		if slot == 0 {
			b.table[at] = tag | uint64(len(b.terms)+1)
			return uint32(len(b.terms)), false
		}
		if slot&^(1<<32-1) == tag {
			i := uint32(slot) - 1
			if t := &b.terms[i]; t.hash == h && same(t) {
				return i, true
			}
		}
	}
}

func (b *Builder) growTable() {
	n := max(1<<10, 2*len(b.table))
	if cap(b.table) >= n {
		b.table = b.table[:n]
		clear(b.table)
	} else {
		b.table = make([]uint64, n)
	}
	mask := uint64(len(b.table) - 1)
	for i := range b.terms {
		h := b.terms[i].hash
		if h == 0 {
			continue // not found by its hash
		}
		at := h & mask
		for b.table[at] != 0 {
			at = (at + 1) & mask
		}
		b.table[at] = h&^(1<<32-1) | uint64(i+1)
	}
}

// note adds the present ordinal to a term.
func (b *Builder) note(i uint32) {
	t := &b.terms[i]
	if t.count > 0 && t.last == b.ordinal {
		return
	}
	t.last = b.ordinal
	t.count++
	b.pairs = append(b.pairs, uint64(i)<<32|uint64(b.ordinal))
}

// reset forgets the documents.
func (b *Builder) reset() {
	b.forget()
	b.tree = newPathTree(b.c)
}

// forget empties the memory.
func (m *builderMemory) forget() {
	m.terms, m.texts, m.pairs = m.terms[:0], m.texts[:0], m.pairs[:0]
	m.table = m.table[:0]
}
