package index

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// A composite index has one term for each document: the values at its paths, one behind
// the other. So the documents with some values at the first paths are neighbours, and
// follow in the order of the path after them.
//
//	term      = 04 │ number of the composite index 1 │ component …
//	component = kind 1 │ value                          its bits inverted where the path is descending
//
//	undefined, null, array, object   nothing
//	bool                             1 byte: 0 false, 1 true
//	number                           8 bytes that sort as doubles do
//	string                           its bytes, a 0 as 0 FF, then 0 1; of one longer than MaxString
//	                                 the first MaxString of them, then 0 2 and 4 bytes of CRC32C of all
//
// The kinds are those of package jsondoc: 0 is an absent value, the others are as in Type.
// No component is the beginning of another. A string that was cut comes after the string of
// its first MaxString bytes and before all that come after that one and begin otherwise.
//
// The number of a composite index is its place among those of the policy in the order of
// their text form, from 0. Every document of a file has a term, also one without a value
// at any of the paths. Components that are not cut are as package query has them in order
// keys.
const (
	termComposite = 0x04
	compositeHead = 2 // bytes of a term before its components
	textEnd       = 0x01
	textCut       = 0x02
	textZero      = 0xFF
)

// Bounds of the composite indexes of a policy, as Azure Cosmos DB has them.
const (
	MaxComposites     = 100
	MaxCompositePaths = 8
)

// CompositePath is one of the paths of a composite index, such as /city or /owner/name.
type CompositePath struct {
	Path string `json:"path"`
	// Descending turns the order of the values at the path round.
	Descending bool `json:"descending,omitempty"`
}

// String returns the path with its order.
func (p CompositePath) String() string {
	if p.Descending {
		return p.Path + " DESC"
	}
	return p.Path
}

// CompositeText returns the text form of a composite index: its paths with their orders.
func CompositeText(paths []CompositePath) string {
	text := make([]string, len(paths))
	for i, p := range paths {
		text[i] = p.String()
	}
	return strings.Join(text, ", ")
}

// ParseComposite reads the text form of a composite index.
func ParseComposite(text string) ([]CompositePath, error) {
	var paths []CompositePath
	for _, part := range jsondoc.SplitPaths(text) {
		p := CompositePath{Path: strings.TrimSpace(part)}
		if name, order, ok := cutLast(p.Path); ok {
			switch {
			case strings.EqualFold(order, "desc"):
				p = CompositePath{name, true}
			case strings.EqualFold(order, "asc"):
				p.Path = name
			}
		}
		paths = append(paths, p)
	}
	_, err := compileComposite(paths)
	return paths, err
}

func cutLast(text string) (before, after string, ok bool) {
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return text, "", false
	}
	return strings.TrimSpace(text[:i]), text[i+1:], true
}

// Composite is a composite index made ready. It is immutable.
type Composite struct {
	Paths      []Path
	Descending []bool // by path

	text   string
	number byte
	slots  []int32 // by path: where the builder keeps its values
}

// String returns the text form.
func (c *Composite) String() string { return c.text }

// Composites returns the composite indexes in the order of their numbers.
func (c *Compiled) Composites() []*Composite { return c.composites }

// compileComposite checks a composite index.
func compileComposite(paths []CompositePath) (*Composite, error) {
	c := new(Composite)
	text := make([]CompositePath, len(paths))
	refuse := func(format string, args ...any) (*Composite, error) {
		return nil, fmt.Errorf("composite index (%s): %w", CompositeText(paths), fmt.Errorf(format, args...))
	}
	if len(paths) < 2 {
		return refuse("has %d paths, at least 2 are needed; a single path belongs into Include", len(paths))
	}
	if len(paths) > MaxCompositePaths {
		return refuse("has %d paths, at most %d are possible", len(paths), MaxCompositePaths)
	}
	for i, p := range paths {
		steps, err := splitPath(p.Path)
		if err != nil {
			return refuse("path %q: %w", p.Path, err)
		}
		var path Path
		for _, s := range steps {
			switch {
			case s.element:
				return refuse("path %q: a document can have several values in an array, a composite index has one", p.Path)
			case s.wild:
				return refuse("path %q: %s is left out, a composite index is of the value at the path", p.Path, s.name)
			}
			path = path.Member(s.name)
		}
		switch {
		case len(steps) == 0:
			return refuse("path %q: a document as a whole is no value", p.Path)
		case len(path.steps) > maxPath:
			return refuse("path %q: longer than %d bytes", p.Path, maxPath)
		case slices.Contains(c.Paths, path):
			return refuse("path %q is listed twice", p.Path)
		}
		c.Paths, c.Descending = append(c.Paths, path), append(c.Descending, p.Descending)
		text[i] = CompositePath{path.String(), p.Descending}
	}
	c.text = CompositeText(text)
	return c, nil
}

// addComposites makes the composite indexes of the policy ready.
func (c *Compiled) addComposites() error {
	if n := len(c.policy.Composite); n > MaxComposites {
		return fmt.Errorf("index policy: it has %d composite indexes, at most %d are possible", n, MaxComposites)
	}
	for _, paths := range c.policy.Composite {
		x, err := compileComposite(paths)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(c.composites, func(o *Composite) bool { return o.text == x.text }) {
			return fmt.Errorf("composite index (%s): is listed twice", x.text)
		}
		c.composites = append(c.composites, x)
	}
	slices.SortFunc(c.composites, func(a, b *Composite) int { return cmp.Compare(a.text, b.text) })
	for i, x := range c.composites {
		x.number = byte(i)
		for _, path := range x.Paths {
			at := c.root
			for _, step := range path.split() {
				at = at.step(pathStep{name: stepName(step)})
			}
			if at.slot == 0 {
				c.slots++
				at.slot = c.slots
			}
			x.slots = append(x.slots, at.slot-1)
		}
	}
	return nil
}

// canonicalComposites returns the composite indexes in the order of their text form, with
// paths as Path.String writes them: what the fingerprint is made of.
func (c *Compiled) canonicalComposites() [][]CompositePath {
	var list [][]CompositePath
	for _, x := range c.composites {
		paths := make([]CompositePath, len(x.Paths))
		for i, p := range x.Paths {
			paths[i] = CompositePath{p.String(), x.Descending[i]}
		}
		list = append(list, paths)
	}
	return list
}

// steps returns what the terms of a composite index have before their components.
func (c *Composite) steps() string { return string([]byte{termComposite, c.number}) }

// appendComponent appends the component of a value of a document, ascending.
func appendComponent(dst []byte, v *jsondoc.Value, scratch *[]byte) []byte {
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case jsondoc.KindBool:
		if v.Bool() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case jsondoc.KindNumber:
		return binary.BigEndian.AppendUint64(dst, numberBits(v.Number()))
	case jsondoc.KindString:
		return appendComponentText(dst, v.Bytes(scratch))
	}
	return dst
}

// appendValue appends the component of a value, ascending. cut says that it stands for
// others too.
func appendValue(dst []byte, v Value) (key []byte, cut bool) {
	dst = append(dst, byte(v.Type))
	switch v.Type {
	case Bool:
		if v.Bool {
			return append(dst, 1), false
		}
		return append(dst, 0), false
	case Number:
		return binary.BigEndian.AppendUint64(dst, numberBits(v.Number)), false
	case String:
		return appendComponentText(dst, []byte(v.Text)), len(v.Text) > MaxString
	}
	return dst, false
}

func appendComponentText(dst, text []byte) []byte {
	if len(text) <= MaxString {
		return append(appendEscaped(dst, text), 0, textEnd)
	}
	dst = append(appendEscaped(dst, text[:MaxString]), 0, textCut)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(text, castagnoli))
}

func appendEscaped[T string | []byte](dst []byte, text T) []byte {
	for i := range len(text) {
		if dst = append(dst, text[i]); text[i] == 0 {
			dst = append(dst, textZero)
		}
	}
	return dst
}

func invert(key []byte) {
	for i := range key {
		key[i] = ^key[i]
	}
}

// prefix returns the beginning of the terms with these values at the first paths. loose
// says that other values may have it too.
func (c *Composite) prefix(equal []Value) (key []byte, loose bool) {
	key = append(key, termComposite, c.number)
	for i, v := range equal {
		from := len(key)
		var cut bool
		if key, cut = appendValue(key, v); cut {
			loose = true
		}
		if c.Descending[i] {
			invert(key[from:])
		}
	}
	return key, loose
}

// Equal is the span of the documents with these values at the first paths.
func (c *Composite) Equal(equal []Value) Span {
	key, loose := c.prefix(equal)
	if len(equal) == len(c.Paths) {
		return Span{key, after(key), loose}
	}
	return Span{key, next(key), loose}
}

// Between is the span of the documents with these values at the first paths and a value
// between two bounds at the path after them, of the type that the bounds have. At least one
// bound must be there, and both must be of one type.
func (c *Composite) Between(equal []Value, lo, hi Bound) Span {
	head, loose := c.prefix(equal)
	kind := byte(max(lo.Value.Type, hi.Value.Type))
	// A bound is the place before or behind all components with some beginning.
	from, to := []byte{kind}, []byte{kind}
	fromEnd, toEnd := false, true
	if !lo.none() {
		from, fromEnd = appendBound(lo), !lo.Inclusive && !lo.long()
		loose = loose || lo.long()
	}
	if !hi.none() {
		to, toEnd = appendBound(hi), hi.Inclusive || hi.long()
		loose = loose || hi.long()
	}
	if c.Descending[len(equal)] {
		invert(from)
		invert(to)
		from, to, fromEnd, toEnd = to, from, !toEnd, !fromEnd
	}
	place := func(part []byte, end bool) []byte {
		key := append(head[:len(head):len(head)], part...)
		if end {
			return next(key)
		}
		return key
	}
	return Span{place(from, fromEnd), place(to, toEnd), loose}
}

func (b Bound) long() bool { return b.Value.Type == String && len(b.Value.Text) > MaxString }

// appendBound returns the component of a bound; of a long string the beginning that all
// that were cut alike have.
func appendBound(b Bound) []byte {
	if b.long() {
		return cutText(b.Value.Text)
	}
	key, _ := appendValue(nil, b.Value)
	return key
}

// cutText returns what the components of all longer strings that begin as text does, in its
// first MaxString bytes, begin with.
func cutText(text string) []byte {
	return append(appendEscaped([]byte{byte(String)}, text[:MaxString]), 0, textCut)
}

// HasPrefix is the span of the documents with these values at the first paths and a string
// that begins with a text at the path after them.
func (c *Composite) HasPrefix(equal []Value, text string) Span {
	key, loose := c.prefix(equal)
	from := len(key)
	if len(text) > MaxString {
		key, loose = append(key, cutText(text)...), true
	} else {
		key = appendEscaped(append(key, byte(String)), text)
	}
	if c.Descending[len(equal)] {
		invert(key[from:])
	}
	return Span{key, next(key), loose}
}

// Order returns what a term, which must be one of c, says of the order by the paths from
// one on: the components of these paths, up to a string that was cut. Of that string,
// which cut says that there is, it returns the part that strings which were cut alike have.
// ok is false for bytes that are no such term.
func (c *Composite) Order(term []byte, from int) (key []byte, cut, ok bool) {
	at, start := compositeHead, compositeHead
	if len(term) < at || term[0] != termComposite || term[1] != c.number {
		return nil, false, false
	}
	for i := range c.Paths {
		if i == from {
			start = at
		}
		n, text := component(term[at:], c.Descending[i])
		if n == 0 {
			return nil, false, false
		}
		if text > 0 && i >= from {
			return term[start : at+text], true, true
		}
		at += n
	}
	return term[start:at], false, at == len(term)
}

// component returns the length of the component that key begins with, 0 if there is none,
// and of a string that was cut the length of its kind and text, without their end.
func component(key []byte, descending bool) (n, cut int) {
	flip := byte(0)
	if descending {
		flip = 0xFF
	}
	if len(key) == 0 {
		return 0, 0
	}
	switch jsondoc.Kind(key[0] ^ flip) {
	case jsondoc.KindUndefined, jsondoc.KindNull, jsondoc.KindArray, jsondoc.KindObject:
		return 1, 0
	case jsondoc.KindBool:
		n = 2
	case jsondoc.KindNumber:
		n = 9
	case jsondoc.KindString:
		for i := 1; i+1 < len(key); i++ {
			if key[i]^flip != 0 {
				continue
			}
			switch i++; key[i] ^ flip {
			case textZero:
			case textEnd:
				return i + 1, 0
			case textCut:
				if n = i + 5; n > len(key) {
					return 0, 0
				}
				return n, i - 1
			default:
				return 0, 0
			}
		}
	}
	if n > len(key) {
		return 0, 0
	}
	return n, 0
}

// After is the span of the terms of the documents whose values at the paths from one on
// have an order key, in the declared order, given the values at the paths before. whole
// says that the term has these values and no others. ok is false if key does not begin with
// such an order key; else n is its length.
func (c *Composite) After(equal []Value, key []byte) (s Span, n int, whole, ok bool) {
	term, _ := c.prefix(equal)
	whole = true
	for i := len(equal); i < len(c.Paths); i++ {
		size, _ := component(key[n:], c.Descending[i])
		if size == 0 {
			return s, 0, false, false
		}
		part := slices.Clone(key[n : n+size])
		n += size
		if !whole {
			continue
		}
		if c.Descending[i] {
			invert(part)
		}
		if text, long := longText(part); long {
			part, whole = cutText(text), false
		}
		if c.Descending[i] {
			invert(part)
		}
		term = append(term, part...)
	}
	if whole {
		return Span{From: term, To: after(term)}, n, true, true
	}
	return Span{From: term, To: next(term)}, n, false, true
}

// longText returns the string of a component, ascending, if it is longer than MaxString.
func longText(part []byte) (string, bool) {
	if Type(part[0]) != String || len(part) <= MaxString {
		return "", false
	}
	text := strings.ReplaceAll(string(part[1:len(part)-2]), "\x00\xff", "\x00")
	return text, len(text) > MaxString
}

// DecodeComposite reads a term of a composite index of the policy; false: it is none. Of
// an absent value the type is 0. cut says that a string was cut.
func (c *Compiled) DecodeComposite(term []byte) (x *Composite, values []Value, cut, ok bool) {
	if len(term) < compositeHead || term[0] != termComposite || int(term[1]) >= len(c.composites) {
		return nil, nil, false, false
	}
	x = c.composites[term[1]]
	at := compositeHead
	for i := range x.Paths {
		n, text := component(term[at:], x.Descending[i])
		if n == 0 {
			return nil, nil, false, false
		}
		part := slices.Clone(term[at : at+n])
		if x.Descending[i] {
			invert(part)
		}
		v := Value{Type: Type(part[0])}
		switch v.Type {
		case Bool:
			v.Bool = part[1] == 1
		case Number:
			v.Number = numberFromBits(binary.BigEndian.Uint64(part[1:]))
		case String:
			if text == 0 {
				text = n - 2
			} else {
				cut = true
			}
			v.Text = strings.ReplaceAll(string(part[1:text]), "\x00\xff", "\x00")
		}
		values = append(values, v)
		at += n
	}
	return x, values, cut, at == len(term)
}

// Describe says for people what a term is of, without values.
func (c *Compiled) Describe(term []byte) string {
	if t, ok := DecodeTerm(term); ok {
		return fmt.Sprintf("a %v at %v", t.Value.Type, t.Path)
	}
	if x, _, _, ok := c.DecodeComposite(term); ok {
		return fmt.Sprintf("a term of the composite index (%v)", x)
	}
	return "a term of versions"
}

// compositeBuilder collects the values of a document for its terms of composite indexes.
type compositeBuilder struct {
	values []byte
	slots  []part // by slot
	term   []byte
}

// part is a component: compositeBuilder.values[from:to]; empty: the value is absent.
type part struct{ from, to uint32 }

// begin begins a document.
func (b *compositeBuilder) begin(c *Compiled) {
	b.values = b.values[:0]
	if len(b.slots) != int(c.slots) {
		b.slots = make([]part, c.slots)
	}
	clear(b.slots)
}

// set sets the value of a slot.
func (b *compositeBuilder) set(slot int32, v *jsondoc.Value, scratch *[]byte) {
	from := len(b.values)
	b.values = appendComponent(b.values, v, scratch)
	b.slots[slot] = part{uint32(from), uint32(len(b.values))}
}

// termOf returns the components of the document in a composite index, valid until the next
// call.
func (b *compositeBuilder) termOf(x *Composite) []byte {
	b.term = b.term[:0]
	for i, slot := range x.slots {
		from := len(b.term)
		if p := b.slots[slot]; p.from == p.to {
			b.term = append(b.term, byte(jsondoc.KindUndefined))
		} else {
			b.term = append(b.term, b.values[p.from:p.to]...)
		}
		if x.Descending[i] {
			invert(b.term[from:])
		}
	}
	return b.term
}

// addComposites adds the terms of the document in composite indexes.
func (b *Builder) addComposites() {
	for _, x := range b.c.composites {
		b.addText(int32(x.number)+1, compositeKind, b.composite.termOf(x), true)
	}
}

// compositeKind is the type of terms of composite indexes while an index is made.
const compositeKind Type = math.MaxUint8

// isText says that a builder keeps the values of terms of the type as bytes.
func (t Type) isText() bool { return t == String || t == compositeKind }
