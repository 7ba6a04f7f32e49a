package jsondoc

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Edit is a change of one place of a document.
type Edit struct {
	Kind  EditKind
	Path  string  // where: a JSON pointer, "/a/b/0"; "-" is the end of an array
	From  string  // Move: what is moved
	Value []byte  // Set, Add, Replace: one JSON value
	By    float64 // Increment
}

// EditKind is a kind of change.
type EditKind uint8

// Kinds of changes. The object or array that holds the place must exist.
const (
	// EditSet puts a value in a place, whether or not one is there. At the end of
	// an array it adds an element.
	EditSet EditKind = iota
	// EditAdd is EditSet, but inserts an element before one of an array.
	EditAdd
	// EditReplace is EditSet where a value must be.
	EditReplace
	// EditRemove removes a member or an element, which must be there.
	EditRemove
	// EditIncrement adds to a number; where nothing is, to 0.
	EditIncrement
	// EditMove removes the value at From, which must be there, and adds it at
	// Path.
	EditMove
)

// String returns the kind's name.
func (k EditKind) String() string {
	if int(k) < len(editNames) {
		return editNames[k]
	}
	return "edit " + strconv.Itoa(int(k))
}

var editNames = [...]string{"set", "add", "replace", "remove", "increment", "move"}

var (
	errNoParent  = errors.New("what should hold it is not there, or no object or array")
	errNothing   = errors.New("nothing is there")
	errBadIndex  = errors.New("no index of the array")
	errNotNumber = errors.New("what is there is no number")
	errOverflow  = errors.New("the sum is beyond the range of doubles")
	errIntoItem  = errors.New("a value cannot be moved into itself")
	errRoot      = errors.New("the document itself cannot be edited")
)

// Apply returns the document with the change, in new memory. The document is one
// that a Scanner has accepted; the result of an edit with a valid value is JSON
// again, but a Scanner may refuse it: for its size, its depth, or what its id,
// ttl or key became. Work is linear in the document's length. Errors say what is
// wrong with the place.
func (e *Edit) Apply(doc []byte) ([]byte, error) {
	if e.Kind == EditMove {
		return e.move(doc)
	}
	at, err := locate(doc, e.Path)
	if err != nil {
		return nil, err
	}
	value := e.Value
	switch {
	case e.Kind == EditRemove || e.Kind == EditReplace:
		if !at.found {
			return nil, errNothing
		}
		if e.Kind == EditRemove {
			return at.remove(doc), nil
		}
	case e.Kind == EditIncrement:
		old := []byte("0")
		if at.found {
			old = doc[at.value:at.end]
		}
		if value, err = sum(old, e.By); err != nil {
			return nil, err
		}
	case e.Kind == EditAdd && at.array && at.found:
		return splice(doc, at.start, at.start, value, []byte{','}), nil
	}
	return at.put(doc, value), nil
}

// move takes a value out of a document and adds it in another place.
func (e *Edit) move(doc []byte) ([]byte, error) {
	from, err := locate(doc, e.From)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.From, err)
	}
	if !from.found {
		return nil, fmt.Errorf("%s: %w", e.From, errNothing)
	}
	if strings.HasPrefix(e.Path, e.From+"/") {
		return nil, errIntoItem
	}
	add := Edit{Kind: EditAdd, Path: e.Path, Value: doc[from.value:from.end]}
	return add.Apply(from.remove(doc))
}

// spot is a place in an object or array, where a value is or may be put.
type spot struct {
	array bool
	found bool   // a value is there
	name  string // of the member

	start int // the member's name, or the element
	value int // its value; not found: behind the last value, or the opening bracket
	end   int // behind the value; not found: as value
	count int // members or elements in all
	index int // of this one
	prev  int // end of the value before it
	next  int // start of the one after it
}

// put sets the value at a spot.
func (s *spot) put(doc, value []byte) []byte {
	if s.found {
		return splice(doc, s.value, s.end, value)
	}
	var comma, name []byte
	if s.count > 0 {
		comma = []byte{','}
	}
	if !s.array {
		name = append(AppendString(nil, s.name), ':')
	}
	return splice(doc, s.value, s.value, comma, name, value)
}

// remove takes the member or element out, with the comma that it leaves over.
func (s *spot) remove(doc []byte) []byte {
	switch {
	case s.index+1 < s.count:
		return splice(doc, s.start, s.next)
	case s.index > 0:
		return splice(doc, s.prev, s.end)
	}
	return splice(doc, s.start, s.end)
}

// splice returns doc with parts in the place of doc[from:to].
func splice(doc []byte, from, to int, parts ...[]byte) []byte {
	n := len(doc) - (to - from)
	for _, p := range parts {
		n += len(p)
	}
	out := append(make([]byte, 0, n), doc[:from]...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return append(out, doc[to:]...)
}

// CheckPath says what is wrong with a path, nil if it is a JSON pointer to a
// place inside of a document.
func CheckPath(path string) error {
	if path == "" {
		return errRoot
	}
	if path[0] != '/' {
		return errors.New("a path begins with a slash")
	}
	if !utf8.ValidString(path) {
		return errors.New("it is not valid UTF-8")
	}
	for i := 0; i < len(path); i++ {
		if path[i] == '~' && (i+1 == len(path) || path[i+1] != '0' && path[i+1] != '1') {
			return errors.New("~ stands only in ~0 (for ~) and ~1 (for /)")
		}
	}
	return nil
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// locate finds a place. The object or array that holds it must be there.
func locate(doc []byte, path string) (spot, error) {
	if err := CheckPath(path); err != nil {
		return spot{}, err
	}
	at := spot{found: true}
	for rest, more := path[1:], true; more; {
		var token string
		token, rest, more = strings.Cut(rest, "/")
		if strings.Contains(token, "~") {
			token = unescapePointer.Replace(token)
		}
		if !at.found {
			return spot{}, errNoParent
		}
		var err error
		if at, err = find(Walker{doc, at.value}, token); err != nil {
			return spot{}, err
		}
	}
	return at, nil
}

// find finds a member or element in the object or array before which w is.
func find(w Walker, token string) (spot, error) {
	s := spot{name: token}
	index := -1
	switch w.Next().Kind {
	case KindObject:
	case KindArray:
		s.array = true
		if token != "-" {
			n, err := strconv.ParseUint(token, 10, 31)
			if err != nil || token != strconv.FormatUint(n, 10) {
				return s, errBadIndex
			}
			index = int(n)
		}
	default:
		return s, errNoParent
	}
	var text []byte
	last := w.pos // behind the value before
	for v := w.Whole(); v.Kind != KindUndefined; v = w.Whole() {
		start := w.pos - len(v.Text)
		mine := index == s.count
		if !s.array {
			name := v
			if v = w.Whole(); name.Kind != KindString || v.Kind == KindUndefined {
				return s, errNoParent // it is no document
			}
			mine = string(name.Bytes(&text)) == token
		}
		switch {
		case mine:
			s.found, s.start, s.value, s.end, s.prev, s.index = true, start, w.pos-len(v.Text), w.pos, last, s.count
		case s.found && s.index == s.count-1:
			s.next = start
		}
		s.count++
		last = w.pos
	}
	if s.found {
		return s, nil
	}
	if index > s.count {
		return s, errBadIndex
	}
	s.start, s.value, s.end, s.index = last, last, last, s.count
	return s, nil
}

// sum returns a number plus another one. Where both are whole and the result
// fits into 64 bits it is exact.
func sum(text []byte, by float64) ([]byte, error) {
	if c := text[0]; c != '-' && (c < '0' || c > '9') {
		return nil, errNotNumber
	}
	if whole, err := strconv.ParseInt(string(text), 10, 64); err == nil && by == math.Trunc(by) && math.Abs(by) < 1<<63 {
		n := int64(by)
		if total := whole + n; (total > whole) == (n > 0) {
			return strconv.AppendInt(nil, total, 10), nil
		}
	}
	f := double(text) + by
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, errOverflow
	}
	return sumText(f), nil
}

// sumText writes a number as encoding/json does it. But from 2^63 on it has an exponent,
// so that it does not look like a whole number that is exact.
func sumText(f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && abs < 1e-6 || abs >= 1<<63 {
		format = 'e'
	}
	text := strconv.AppendFloat(nil, f, format, -1, 64)
	if n := len(text); format == 'e' && text[n-3] == '-' && text[n-2] == '0' { // e-07
		text = append(text[:n-2], text[n-1])
	}
	return text
}
