package jsondoc

import (
	"bytes"
	"math"
	"strconv"

	"github.com/cleavestore/cleave/partmap"
)

// interpret fills out from the findings of a walk.
func (s *Scanner) interpret(doc []byte, paths *Paths, out *Doc) error {
	if err := s.takeID(doc, out); err != nil {
		return err
	}
	if err := s.takeTTL(doc, out); err != nil {
		return err
	}
	return s.takeKey(doc, paths, out)
}

func (s *Scanner) takeID(doc []byte, out *Doc) error {
	v := s.found[slotID]
	refuse := func(kind error, msg string) error {
		return &Error{Offset: int(v.start), Path: "/id", Kind: kind, Msg: msg}
	}
	switch v.kind {
	case '"':
		out.ID, out.IDStart, out.IDEnd = doc[v.start:v.end:v.end], int(v.start), int(v.end)
	case '\\':
		out.id = unescape(out.id, doc[v.start:v.end])
		out.ID = out.id
	case 0:
		return refuse(ErrNoID, "the document has no member id")
	default:
		return refuse(ErrBadID, "it must be a string, not "+v.typeName())
	}
	if len(out.ID) == 0 {
		return refuse(ErrBadID, "it is empty")
	}
	if len(out.ID) > MaxID {
		return refuse(ErrBadID, strconv.Itoa(len(out.ID))+" bytes, limit "+strconv.Itoa(MaxID))
	}
	if bytes.IndexByte(out.ID, '/') >= 0 || bytes.IndexByte(out.ID, '\\') >= 0 {
		return refuse(ErrBadID, `it must not contain / or \`)
	}
	return nil
}

func (s *Scanner) takeTTL(doc []byte, out *Doc) error {
	v := s.found[slotTTL]
	if v.kind == 0 {
		return nil
	}
	refuse := func(msg string) error {
		return &Error{Offset: int(v.start), Path: "/ttl", Kind: ErrBadTTL, Msg: msg}
	}
	if v.kind != '0' {
		return refuse("it must be a number, not " + v.typeName())
	}
	f, ok := double(doc[v.start:v.end])
	if !ok || f != math.Trunc(f) || f != -1 && (f < 1 || f > MaxTTL) {
		return refuse("it must be -1 or a whole number from 1 to " + strconv.Itoa(MaxTTL))
	}
	out.TTL, out.HasTTL = int64(f), true
	return nil
}

func (s *Scanner) takeKey(doc []byte, paths *Paths, out *Doc) error {
	for slot := range paths.keys {
		v := s.found[slot]
		refuse := func(msg string) error {
			return &Error{Offset: int(v.start), Path: paths.text[slot], Kind: ErrBadKey, Msg: msg}
		}
		text := doc[v.start:v.end]
		switch v.kind {
		case 0:
			out.PK = partmap.AppendUndefined(out.PK)
		case 'n':
			out.PK = partmap.AppendNull(out.PK)
		case 't', 'f':
			out.PK = partmap.AppendBool(out.PK, v.kind == 't')
		case '0':
			f, ok := double(text)
			if !ok {
				return refuse("the number is beyond the range of doubles")
			}
			out.PK = partmap.AppendNumber(out.PK, f)
		case '"', '\\':
			if v.kind == '\\' {
				s.text = unescape(s.text[:0], text)
				text = s.text
			}
			if len(text) > partmap.MaxString {
				return refuse("a string of " + strconv.Itoa(len(text)) + " bytes, limit " + strconv.Itoa(partmap.MaxString))
			}
			out.PK = partmap.AppendString(out.PK, text)
		default:
			return refuse("it must be a string, number, true, false or null, not " + v.typeName())
		}
		if len(out.PK) > partmap.MaxEncoded {
			return refuse(strconv.Itoa(len(out.PK)) + " encoded bytes with the levels before it, limit " + strconv.Itoa(partmap.MaxEncoded))
		}
	}
	return nil
}

// typeName returns the JSON type of a value that is present.
func (v *finding) typeName() string {
	switch v.kind {
	case '"', '\\':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 'n':
		return "null"
	}
	return "a boolean"
}
