package manifest

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
)

// Unmarshal decodes JSON from a file or from another store into v, a pointer to a
// struct, and checks it, if it has a method Check. Member names that v does not
// know are refused if strict. What v comes to hold is bounded before anything is
// decoded: a text of n bytes gives at most weightPerByte*n bytes and some more,
// however many empty objects it lists. Error texts are bounded as well.
func Unmarshal(text []byte, v any, strict bool) error {
	w := weigher{text: text, left: freeWeight + weightPerByte*int64(len(text))}
	err := w.value(reflect.TypeOf(v).Elem(), 0)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		if strict {
			dec.DisallowUnknownFields()
		}
		if err = dec.Decode(v); err == nil {
			if _, more := dec.Token(); more != io.EOF {
				err = errors.New("bytes behind the value")
			}
		}
	}
	if c, ok := v.(interface{ Check() error }); ok && err == nil {
		err = c.Check()
	}
	if err != nil {
		return errors.New(Clip(err.Error()))
	}
	return nil
}

// Clip shortens a text that may hold what others have written.
func Clip(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

const (
	weightPerByte = 4       // numbers in a list: 8 bytes each, written with two
	freeWeight    = 1 << 20 // bytes
	maxDepth      = 32
	maxName       = 64 // bytes
)

// weigher adds up what the values in a text take in memory. It passes over what is
// no JSON, for the decoder to refuse.
type weigher struct {
	text []byte
	off  int
	left int64
}

var errTruncated = errors.New("the text ends in the middle of a value")

// take counts bytes of memory.
func (w *weigher) take(n int64) error {
	if w.left -= n; w.left < 0 {
		return fmt.Errorf("at byte %d: more and smaller values than such a text has", w.off)
	}
	return nil
}

// next returns the first byte of the next token.
func (w *weigher) next() (byte, error) {
	for ; w.off < len(w.text); w.off++ {
		switch c := w.text[w.off]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c, nil
		}
	}
	return 0, errTruncated
}

// value weighs a value for the type; nil: one that is not kept.
func (w *weigher) value(t reflect.Type, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("at byte %d: values lie %d deep in each other", w.off, depth)
	}
	c, err := w.next()
	if err != nil {
		return err
	}
	for t != nil && t.Kind() == reflect.Pointer {
		if t = t.Elem(); c != 'n' {
			if err := w.take(int64(t.Size())); err != nil {
				return err
			}
		}
	}
	switch c {
	case '{':
		return w.object(t, depth)
	case '[':
		return w.list(t, depth)
	case '"':
		s, err := w.string()
		if err != nil || t == nil {
			return err
		}
		return w.take(int64(len(s)))
	}
	// A number, true, false or null.
	for w.off < len(w.text) && !strings.ContainsRune(" \t\r\n,:]}", rune(w.text[w.off])) {
		w.off++
	}
	return nil
}

// string passes over a string and returns what is between its quotes.
func (w *weigher) string() ([]byte, error) {
	from := w.off + 1
	for w.off = from; w.off < len(w.text); w.off++ {
		switch w.text[w.off] {
		case '"':
			w.off++
			return w.text[from : w.off-1], nil
		case '\\':
			w.off++
		}
	}
	return nil, errTruncated
}

// more passes over what is between the values of an object or list. false: it
// has ended.
func (w *weigher) more(first bool, end byte) (bool, error) {
	c, err := w.next()
	switch {
	case err != nil:
		return false, err
	case c == end:
		w.off++
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, fmt.Errorf("at byte %d: %q where a comma or an end is expected", w.off, c)
	}
	w.off++
	return true, nil
}

func (w *weigher) object(t reflect.Type, depth int) error {
	w.off++
	for first := true; ; first = false {
		if more, err := w.more(first, '}'); err != nil || !more {
			return err
		}
		c, err := w.next()
		if err != nil {
			return err
		}
		if c != '"' {
			return fmt.Errorf("at byte %d: %q where a name is expected", w.off, c)
		}
		name, err := w.string()
		if err != nil {
			return err
		}
		if c, err = w.next(); err != nil {
			return err
		}
		if c != ':' {
			return fmt.Errorf("at byte %d: %q where a colon is expected", w.off, c)
		}
		w.off++
		if len(name) > maxName || bytes.IndexByte(name, '\\') >= 0 {
			return fmt.Errorf("at byte %d: a name of %d bytes, or with an escape", w.off, len(name))
		}
		if err := w.value(member(t, name), depth+1); err != nil {
			return err
		}
	}
}

// member returns the type of a member of a struct, as the decoder finds it: in
// either case of letters; nil: there is none.
func member(t reflect.Type, name []byte) reflect.Type {
	if t == nil {
		return nil
	}
	list := membersOf(t)
	for i := range list {
		if list[i].name == string(name) {
			return list[i].of
		}
	}
	for i := range list {
		if strings.EqualFold(list[i].name, string(name)) {
			return list[i].of
		}
	}
	return nil
}

// structMember is a member of a struct, or of one embedded in it.
type structMember struct {
	name string
	of   reflect.Type
}

// known has the []structMember of each struct that was weighed.
var known sync.Map

// membersOf returns the members of a struct; of anything else there are none.
func membersOf(t reflect.Type) []structMember {
	if t.Kind() != reflect.Struct {
		return nil
	}
	if list, ok := known.Load(t); ok {
		return list.([]structMember)
	}
	var list []structMember
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			list = append(list, membersOf(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, structMember{name, f.Type})
	}
	known.Store(t, list)
	return list
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

func (w *weigher) list(t reflect.Type, depth int) error {
	var elem reflect.Type
	if t != nil && t.Kind() == reflect.Slice && !reflect.PointerTo(t).Implements(textType) {
		elem = t.Elem()
	}
	w.off++
	for first := true; ; first = false {
		if more, err := w.more(first, ']'); err != nil || !more {
			return err
		}
		if elem != nil {
			if err := w.take(int64(elem.Size())); err != nil {
				return err
			}
		}
		if err := w.value(elem, depth+1); err != nil {
			return err
		}
	}
}
