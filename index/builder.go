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
	// Expect is about how many documents will be added; 0: unknown. The memory that they
	// are likely to take is then reserved at once.
	Expect int
	// Written says that Note also adds when documents without a time of expiry were written.
	// It is set before the first Note.
	Written bool

	c     *Compiled
	limit int64
	temp  func() (vfs.File, error)
	work  int // since Breathe was called

	tree      pathTree
	stack     []openNode
	text      []byte
	sought    []soughtTerm // of the present document, at most soughtBatch
	kept      []byte       // texts of sought that are not in the document
	fetched   uint64       // a sum without a meaning
	likely    int          // number of terms, if the documents are like those before
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
	terms  []builtTerm
	table  []uint64 // tag 32 | index of term + 1, 32; open addressing
	texts  []byte   // values of strings
	noted  []uint32 // terms of documents, one document after the other
	places []placed // what of noted is of which document
	habits []habit  // habitCount of them, that of a term at its index modulo habitCount

	// Of sorting.
	order, place, ordinals []uint32
	keys, spareKeys        []sortKey
}

var builderMemories = sync.Pool{New: func() any { return new(builderMemory) }}

// placed is where the terms of a document end in noted.
type placed struct {
	ordinal uint32
	end     int
}

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
	deleted, older   []uint32
	written, expires []stamped
	list             []uint32 // of one time; see stampedStream
}

// stamped is a version with a time stamp.
type stamped struct {
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

// spilledRun is a part of the temporary file. Its level says how often its terms were joined.
type spilledRun struct {
	off, size int64
	level     int
	sums      []uint32 // of its pages
}

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
		b.versions.expires = append(b.versions.expires, stamped{v.Expires, ordinal})
	} else if b.Written && v.IsDocument() {
		b.versions.written = append(b.versions.written, stamped{v.Modified, ordinal})
	}
}

// Take adds the terms of the versions that come from another file. The reader is
// used until WriteTo returns.
func (b *Builder) Take(r *Reader, remap Remap) {
	b.inputs = append(b.inputs, input{r, remap})
}

// Add adds the terms of a document. The ordinals of documents rise.
func (b *Builder) Add(ordinal uint32, doc []byte) error {
	if len(b.places) == 0 {
		b.begin()
	}
	b.ordinal = ordinal
	if len(b.c.composites) == 0 {
		b.scan(doc)
	} else {
		b.composite.begin(b.c)
		b.scan(doc)
		b.addComposites()
	}
	b.findSought()
	b.places = append(b.places, placed{ordinal, len(b.noted)})
	switch {
	case b.temp == nil && b.Memory() >= b.limit:
		return ErrTooLarge
	case b.temp != nil && b.termMemory() >= b.limit:
		return b.spillTerms()
	}
	return nil
}

// Memory returns about how many bytes the builder holds. What Note has added stays in memory.
func (b *Builder) Memory() int64 {
	v := &b.versions
	return b.termMemory() + 4*int64(len(v.deleted)+len(v.older)) + 16*int64(len(v.written)+len(v.expires))
}

// termMemory is Memory of the documents.
func (b *Builder) termMemory() int64 {
	const termBytes = 32 + 16 // with its share of what sorts them
	return 8*int64(len(b.noted)) + 16*int64(len(b.places)) + termBytes*int64(len(b.terms)) + 8*int64(len(b.table)) + int64(len(b.texts)) + b.tree.bytes
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
	before := uint32(noTerm) // term of the value before in the object or array, if it is looked up
	for len(b.stack) > 0 {
		top := &b.stack[len(b.stack)-1]
		if before != noTerm {
			before = b.follow(&w, top, before)
		}
		from := w.Offset()
		var at int32
		if !top.array {
			at = b.tree.likelyAfter(top.node, top.before)
			if at == 0 || !w.Name(b.tree.nodes[at].written) {
				name := w.Next()
				switch name.Kind {
				case jsondoc.KindString:
					at = b.tree.memberOf(top.node, top.before, name.Bytes(&b.text))
				case jsondoc.KindUndefined:
					b.stack, before = b.stack[:len(b.stack)-1], noTerm
					continue
				default:
					return // no document
				}
			}
			top.before = at
		}
		v := w.Next()
		if top.array {
			if v.Kind == jsondoc.KindUndefined {
				b.stack, before = b.stack[:len(b.stack)-1], noTerm
				continue
			}
			at = b.tree.elementOf(top.node)
		}
		n := &b.tree.nodes[at]
		if n.slot != 0 {
			b.composite.set(n.slot-1, &v, &b.text)
		}
		last := before
		before = noTerm
		switch v.Kind {
		case jsondoc.KindString:
			if n.scalars {
				before = b.addString(at, v.Bytes(&b.text), v.Escaped)
				if last != noTerm && before != noTerm && n.slot == 0 {
					b.learn(last, before, at, doc[from:w.Offset()])
				}
			}
		case jsondoc.KindNumber:
			if n.scalars {
				before = b.addNumber(at, numberBits(v.Number()))
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

// soughtTerm is a term of the present document that is not looked up yet.
type soughtTerm struct {
	hash  uint64
	value uint64 // of a number
	text  []byte // of a string or of components: of the document, or in Builder.kept
	path  int32
	kind  Type
}

// soughtBatch is the number of terms that are looked up together. The table and the terms of
// a large file are in no cache near the processor. It fetches what a batch needs at once,
// instead of one after the other.
const soughtBatch = 64

// fewTerms is the number of terms up to which those of a path are likely to be in a cache
// near the processor, and are looked up at once.
const fewTerms = 256

// noTerm stands for a term whose index is not known.
const noTerm = math.MaxUint32

// seek adds a term, which it may look up later, together with others: then it returns noTerm.
// passing says that the text does not stay as it is.
func (b *Builder) seek(t soughtTerm, passing bool) uint32 {
	if b.tree.nodes[t.path].terms <= fewTerms {
		i := b.find(&t)
		b.note(i)
		return i
	}
	if passing {
		from := len(b.kept)
		b.kept = append(b.kept, t.text...)
		t.text = b.kept[from:]
	}
	if b.sought = append(b.sought, t); len(b.sought) == soughtBatch {
		b.findSought()
	}
	return noTerm
}

// addNumber adds the term of a number.
func (b *Builder) addNumber(path int32, value uint64) uint32 {
	return b.seek(soughtTerm{hash: max(1, mix(hashSeed^uint64(path), value)), value: value, path: path, kind: Number}, false)
}

// addString adds the term of a string. passing says that text does not stay as it is.
func (b *Builder) addString(path int32, text []byte, passing bool) uint32 {
	if len(text) > MaxString {
		sum := crc32.Checksum(text, castagnoli)
		b.text = binary.BigEndian.AppendUint32(append(b.text[:0], text[:MaxString]...), sum)
		text, passing = b.text, true
	}
	return b.addText(path, String, text, passing)
}

// addText adds the term of the bytes of a string, or of components.
func (b *Builder) addText(path int32, kind Type, text []byte, passing bool) uint32 {
	return b.seek(soughtTerm{hash: hashText(path, kind, text), text: text, path: path, kind: kind}, passing)
}

// hashText returns the hash of the term of a text, not 0.
func hashText(path int32, kind Type, text []byte) uint64 {
	le, n := binary.LittleEndian, len(text)
	h := mix(hashSeed, uint64(n)<<40|uint64(path)<<8|uint64(kind))
	var w uint64
	switch {
	case n >= 8:
		for rest := text; len(rest) > 8; rest = rest[8:] {
			h = mix(h, le.Uint64(rest))
		}
		w = le.Uint64(text[n-8:])
	case n >= 4:
		w = uint64(le.Uint32(text)) | uint64(le.Uint32(text[n-4:]))<<32
	case n > 0:
		w = uint64(text[0]) | uint64(text[n/2])<<8 | uint64(text[n-1])<<16
	}
	return max(1, mix(h, w))
}

// findSought looks the terms up that are sought, and adds those that are new.
func (b *Builder) findSought() {
	mask := uint64(len(b.table) - 1)
	// The loads of these loops do not wait for each other.
	var slots [soughtBatch]uint64
	for i := range b.sought {
		slots[i] = b.table[b.sought[i].hash&mask]
	}
	for _, slot := range slots[:len(b.sought)] {
		if slot != 0 {
			b.fetched += uint64(b.terms[uint32(slot)-1].count)
		}
	}
	for i := range b.sought {
		b.note(b.find(&b.sought[i]))
	}
	b.sought, b.kept = b.sought[:0], b.kept[:0]
}

// find returns the index of the term that is sought. It adds it if there is none.
func (b *Builder) find(s *soughtTerm) uint32 {
	mask := uint64(len(b.table) - 1)
	tag := s.hash &^ (1<<32 - 1)
	at := s.hash & mask
	for ; b.table[at] != 0; at = (at + 1) & mask {
		if slot := b.table[at]; slot&^(1<<32-1) == tag {
			if i := uint32(slot) - 1; b.is(&b.terms[i], s) {
				return i
			}
		}
	}
	i := uint32(len(b.terms))
	b.table[at] = tag | uint64(i+1)
	t := builtTerm{hash: s.hash, value: s.value, path: s.path, kind: s.kind}
	if s.kind.isText() {
		t.value, t.size = uint64(len(b.texts)), uint16(len(s.text))
		b.texts = append(b.texts, s.text...)
	}
	b.terms = append(b.terms, t)
	b.tree.nodes[s.path].terms++
	if 4*len(b.terms) >= 3*len(b.table) {
		b.growTable()
	}
	return i
}

// is says whether a term is the one that is sought.
func (b *Builder) is(t *builtTerm, s *soughtTerm) bool {
	if t.hash != s.hash || t.path != s.path || t.kind != s.kind {
		return false
	}
	if s.kind == Number {
		return t.value == s.value
	}
	return int(t.size) == len(s.text) && bytes.Equal(b.texts[t.value:][:t.size], s.text)
}

// density is what a document of a builder had on average.
type density struct{ notes, terms, texts float64 }

// leastDocuments is the number of documents from which on their density is remembered.
const leastDocuments = 256

// remember keeps the density of the documents for the next builder of the policy.
func (b *Builder) remember() {
	if n := float64(len(b.places)); n >= leastDocuments {
		b.c.density.Store(&density{float64(len(b.noted)) / n, float64(len(b.terms)) / n, float64(len(b.texts)) / n})
	}
}

// begin makes ready for the first document.
func (b *Builder) begin() {
	b.reserve()
	b.growTable()
	if b.habits == nil {
		b.habits = make([]habit, habitCount)
	}
}

// reserve makes room for the documents that are expected, or for as many as are likely to
// find place, if they are like those of the last builder. What grows is copied again and
// again, and its old memory is garbage.
func (b *Builder) reserve() {
	d := b.c.density.Load()
	if d == nil || b.Expect < leastDocuments {
		return
	}
	n := min(float64(b.Expect), float64(b.limit)/(8*d.notes+(32+16+16)*d.terms+d.texts+16))
	b.noted = resized(b.noted, int(n*d.notes))[:0]
	b.terms = resized(b.terms, int(n*d.terms))[:0]
	b.texts = resized(b.texts, int(n*d.texts))[:0]
	b.places = resized(b.places, int(n))[:0]
	b.likely = int(n * d.terms)
}

// resized returns s with length n, its content lost. slices.Grow would copy it.
func resized[E any](s []E, n int) []E {
	if cap(s) < n {
		s = make([]E, n+n/8) // the next index may be somewhat larger
	}
	return s[:n]
}

// growTable makes room for more terms.
func (b *Builder) growTable() {
	n := max(1<<10, 2*len(b.table))
	for 3*n < 4*b.likely {
		n *= 2
	}
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
	b.noted = append(b.noted, i)
}

// reset forgets the documents.
func (b *Builder) reset() {
	b.remember()
	b.forget()
	b.tree = newPathTree(b.c)
}

// forget empties the memory.
func (m *builderMemory) forget() {
	m.terms, m.texts, m.noted, m.places = m.terms[:0], m.texts[:0], m.noted[:0], m.places[:0]
	m.table = m.table[:0]
	clear(m.habits)
}
