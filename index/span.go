package index

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Span is a range of terms: From inclusive, To exclusive.
type Span struct {
	From, To []byte
	// Loose says that terms of the span may stand for values that are not
	// meant: the documents must be looked at.
	Loose bool
}

// Empty says that no term can lie in the span.
func (s Span) Empty() bool { return string(s.From) >= string(s.To) }

// Bound is an end of a range of values; the zero value is none.
type Bound struct {
	Value     Value
	Inclusive bool
}

func (b Bound) none() bool { return b.Value.Type == 0 }

// Equal is the span of one value. Arrays and objects, which have only their
// types in terms, are not meant: see OfType.
func Equal(p Path, v Value) Span {
	key := appendTerm(nil, p, v)
	return Span{key, after(key), v.Type == String && len(v.Text) > MaxString}
}

// Text returns the string of a term that lies in strings, a span of OfType with String.
// whole is false if the term has only its beginning, or lies elsewhere.
func Text(term []byte, strings *Span) (text []byte, whole bool) {
	text, inside := bytes.CutPrefix(term, strings.From)
	if len(text) > MaxString {
		return text[:MaxString], false
	}
	return text, inside
}

// Between is the span of the values between two bounds, of the type that the
// bounds have. At least one must be there, and both must be of one type.
func Between(p Path, lo, hi Bound) Span {
	t := max(lo.Value.Type, hi.Value.Type)
	s := OfType(p, t)
	if !lo.none() {
		s.lower(p, lo)
	}
	if !hi.none() {
		s.upper(p, hi)
	}
	return s
}

// Of a bound that is longer than MaxString only the beginning can be compared:
// strings that were cut and begin so may lie on either side.

func (s *Span) lower(p Path, b Bound) {
	if b.Value.Type == String && len(b.Value.Text) > MaxString {
		s.Loose, b.Inclusive = true, false
		b.Value.Text = b.Value.Text[:MaxString]
	}
	if s.From = appendTerm(nil, p, b.Value); !b.Inclusive {
		s.From = after(s.From)
	}
}

func (s *Span) upper(p Path, b Bound) {
	if b.Value.Type == String && len(b.Value.Text) > MaxString {
		s.Loose = true
		b.Value.Text = b.Value.Text[:MaxString]
		s.To = next(appendTerm(nil, p, b.Value))
		return
	}
	if s.To = appendTerm(nil, p, b.Value); b.Inclusive {
		s.To = after(s.To)
	}
}

// HasPrefix is the span of the strings that begin with a text.
func HasPrefix(p Path, text string) Span {
	cut := min(len(text), MaxString)
	key := appendTerm(nil, p, StringValue(text[:cut]))
	if cut < len(text) {
		return Span{after(key), next(key), true}
	}
	return Span{key, next(key), false}
}

// OfType is the span of all values of a type.
func OfType(p Path, t Type) Span {
	key := append([]byte(p.steps), pathEnd, byte(t))
	return Span{From: key, To: next(key)}
}

// Exists is the span of all values at a path.
func Exists(p Path) Span {
	key := append([]byte(p.steps), pathEnd)
	return Span{From: key, To: next(key)}
}

// Below is the span of all values at a path and below it.
func Below(p Path) Span {
	if p.steps == "" {
		return Span{From: []byte{pathEnd}, To: []byte{pathElement + 1}}
	}
	key := []byte(p.steps)
	return Span{From: key, To: next(key)}
}

// The terms that say something of versions as such.
const termVersions = 0 // their first byte

var (
	termDeleted = []byte{termVersions, 'd'} // tombstones
	termOlder   = []byte{termVersions, 'o'} // older versions of the item before them
	termWritten = []byte{termVersions, 'w'} // then the time of writing
	termExpires = []byte{termVersions, 'x'} // then the time of expiry
)

// Deleted is the span of the term of all tombstones.
func Deleted() Span { return Span{From: termDeleted, To: after(termDeleted)} }

// Older is the span of the term of all versions that are not the newest of
// their item in the file: they follow a newer one.
func Older() Span { return Span{From: termOlder, To: after(termOlder)} }

// Expired is the span of what expires up to a time in milliseconds since the
// Unix epoch.
func Expired(now int64) Span {
	to := stampTerm(termExpires, now)
	if now == math.MaxInt64 {
		return Span{From: termExpires, To: next(termExpires)}
	}
	return Span{From: termExpires, To: after(to)}
}

// Written is the span of what has no time of expiry and was written before a time, in
// milliseconds since the Unix epoch. Only an index of which NotesWritten is true has it.
func Written(before int64) Span {
	return Span{From: termWritten, To: stampTerm(termWritten, before)}
}

// stampTerm returns a term with a time.
func stampTerm(term []byte, at int64) []byte { return addStamp(bytes.Clone(term), at) }

func addStamp(term []byte, at int64) []byte {
	return binary.BigEndian.AppendUint64(term, uint64(at)^1<<63)
}

// Documents is the span of all terms of documents: those of versions come before
// them.
func Documents() Span { return Span{From: []byte{pathEnd}, To: []byte{termComposite + 1}} }

// after returns the first key after key.
func after(key []byte) []byte { return append(key[:len(key):len(key)], 0) }

// next returns the first key that key is no prefix of, and after it.
func next(key []byte) []byte {
	key = append([]byte(nil), key...)
	for i := len(key) - 1; i >= 0; i-- {
		if key[i]++; key[i] != 0 {
			return key[:i+1]
		}
	}
	return nil
}
