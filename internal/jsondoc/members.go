package jsondoc

import (
	"math"
	"slices"
	"strconv"

	"github.com/cleavestore/cleave/partmap"
)

// interpret fills out from what a scan found.
func (s *Scanner) interpret(doc []byte, paths *Paths, out *Doc) error {
	if err := s.takeID(doc, out); err != nil {
		return err
	}
	if err := s.takeTTL(doc, out); err != nil {
		return err
	}
	return s.takeKey(doc, paths, out)
}

// finding is where the value of a wanted member is, and its first byte, but that
// '\\' stands for a string with escapes and 0 for an absent value.
type finding struct {
	start, end int32
	first      byte
}

// value returns what was found. Of an object or array that is the bracket.
func (f *finding) value(doc []byte) Value {
	v := Value{Text: doc[f.start:f.end:f.end]}
	switch f.first {
	case '"':
		v.Kind = KindString
	case '\\':
		v.Kind, v.Escaped = KindString, true
	case '{':
		v.Kind = KindObject
	case '[':
		v.Kind = KindArray
	case 't', 'f':
		v.Kind = KindBool
	case 'n':
		v.Kind = KindNull
	case 0:
	default:
		v.Kind = KindNumber
	}
	return v
}

// refuse returns the error for a value that was found; it points behind the quote
// of a string.
func (f *finding) refuse(path string, kind error, msg string) error {
	offset := int(f.start)
	if f.first == '"' || f.first == '\\' {
		offset++
	}
	return &Error{Offset: offset, Path: path, Kind: kind, Msg: msg}
}

func (s *Scanner) takeID(doc []byte, out *Doc) error {
	f := &s.found[slotID]
	v := f.value(doc)
	switch v.Kind {
	case KindString:
	case KindUndefined:
		return f.refuse("/id", ErrNoID, "the document has no member id")
	default:
		return f.refuse("/id", ErrBadID, "it must be a string, not "+v.Kind.withArticle())
	}
	out.ID = slices.Clip(v.Bytes(&out.id))
	switch {
	case len(out.ID) == 0:
		return f.refuse("/id", ErrBadID, "it is empty")
	case len(out.ID) > MaxID:
		return f.refuse("/id", ErrBadID, strconv.Itoa(len(out.ID))+" bytes, limit "+strconv.Itoa(MaxID))
	}
	if !v.Escaped {
		out.IDStart, out.IDEnd = int(f.start)+1, int(f.end)-1
	}
	return nil
}

func (s *Scanner) takeTTL(doc []byte, out *Doc) error {
	f := &s.found[slotTTL]
	v := f.value(doc)
	switch v.Kind {
	case KindNumber:
	case KindUndefined:
		return nil
	default:
		return f.refuse("/ttl", ErrBadTTL, "it must be a number, not "+v.Kind.withArticle())
	}
	ttl := v.Number()
	if ttl != math.Trunc(ttl) || ttl != -1 && (ttl < 1 || ttl > MaxTTL) {
		return f.refuse("/ttl", ErrBadTTL, "it must be -1 or a whole number from 1 to "+strconv.Itoa(MaxTTL))
	}
	out.TTL, out.HasTTL = int64(ttl), true
	return nil
}

func (s *Scanner) takeKey(doc []byte, paths *Paths, out *Doc) error {
	for i, path := range paths.text {
		f := &s.found[paths.slots[i]]
		v := f.value(doc)
		if v.Kind == KindString && len(v.Text) > partmap.MaxString { // with quotes and escapes
			if n := len(v.Bytes(&s.text)); n > partmap.MaxString {
				return f.refuse(path, ErrBadKey, "a string of "+strconv.Itoa(n)+" bytes, limit "+strconv.Itoa(partmap.MaxString))
			}
		}
		var ok bool
		if out.PK, ok = v.AppendKey(out.PK, &s.text); !ok {
			if v.Kind == KindNumber {
				return f.refuse(path, ErrBadKey, "the number is beyond the range of doubles")
			}
			return f.refuse(path, ErrBadKey, "it must be a string, number, true, false or null, not "+v.Kind.withArticle())
		}
		if len(out.PK) > partmap.MaxEncoded {
			return f.refuse(path, ErrBadKey, strconv.Itoa(len(out.PK))+" encoded bytes with the levels before it, limit "+strconv.Itoa(partmap.MaxEncoded))
		}
	}
	return nil
}
