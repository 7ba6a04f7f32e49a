// Package document takes documents apart that clients send, and makes those that the store keeps:
//
//	{ what the client has written , "_rid":"…" , "_ts":… }
//
// Invariants:
//
//  1. A stored document has the two system members as its last ones. So its resource id is found
//     without reading it.
//  2. What a client writes at the name of a system member is dropped. The rest stays as it is, byte for byte.
package document

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/gateway/internal/resourceid"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// System members. The gateway stores a document with _rid and _ts as its last two members,
// so that queries can use them, and adds the others to what it returns. What a client
// writes at these names is dropped.
const (
	RID         = "_rid"
	TS          = "_ts"
	Self        = "_self"
	ETag        = "_etag"
	Attachments = "_attachments"
	LSN         = "_lsn"
)

// IsSystem says whether a name is that of a system member.
func IsSystem(name []byte) bool {
	switch string(name) {
	case RID, TS, Self, ETag, Attachments, LSN:
		return true
	}
	return false
}

// Written is a document as a client sends it, taken apart.
type Written struct {
	body   []byte // without system members, up to the closing brace
	empty  bool   // it has no members
	ID     string // "": it has none that is a string
	HasTTL bool
}

// MaxBytes is the size of the largest document that a client may write, without what it has at the names of system members.
const MaxBytes = 2 << 20

// SystemBytes is more than the gateway adds to a document.
const SystemBytes = 256

// TooLargeError says that a document has more than MaxBytes.
type TooLargeError struct{ Bytes int }

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the document has %d bytes, the limit is %d", e.Bytes, MaxBytes)
}

// Read takes a document apart. It checks that the document is a JSON object, and returns a *TooLargeError
// for one that has too many bytes; the store checks the rest. What it returns may share memory with doc.
func Read(doc []byte) (w Written, err error) {
	doc = bytes.TrimSpace(doc)
	if len(doc) == 0 || doc[0] != '{' || !json.Valid(doc) {
		return w, invalid(doc)
	}
	dropped := false
	w.empty = true
	walk := jsondoc.Walk(doc)
	walk.Next() // the opening brace
	for {
		name := walk.Whole()
		if name.Kind == jsondoc.KindUndefined {
			break
		}
		value := walk.Whole()
		switch plain := unquote(name); {
		case IsSystem(plain):
			dropped = true
			continue
		case string(plain) == "id" && value.Kind == jsondoc.KindString:
			w.ID = string(unquote(value))
		case string(plain) == "ttl":
			w.HasTTL = true
		}
		w.empty = false
	}
	if !dropped {
		w.body = bytes.TrimRight(doc[:len(doc)-1], " \t\r\n")
		return w, w.checkSize()
	}
	w.body = append(make([]byte, 0, len(doc)), '{')
	walk = jsondoc.Walk(doc)
	walk.Next()
	for {
		name := walk.Whole()
		if name.Kind == jsondoc.KindUndefined {
			return w, w.checkSize()
		}
		value := walk.Whole()
		if IsSystem(unquote(name)) {
			continue
		}
		if len(w.body) > 1 {
			w.body = append(w.body, ',')
		}
		w.body = append(append(append(w.body, name.Text...), ':'), value.Text...)
	}
}

// checkSize returns an error for a document that is larger than a client may write.
func (w *Written) checkSize() error {
	if size := len(w.body) + 1; size > MaxBytes {
		return &TooLargeError{size}
	}
	return nil
}

// invalid says what is wrong with a document that is not a JSON object.
func invalid(doc []byte) error {
	var at *json.SyntaxError
	var any map[string]json.RawMessage
	switch err := json.Unmarshal(doc, &any); {
	case len(doc) == 0:
		return errors.New("the body is empty: a JSON object is wanted")
	case errors.As(err, &at):
		return fmt.Errorf("the body is not JSON: %v at byte %d", err, at.Offset)
	}
	return errors.New("the body is not a JSON object")
}

// unquote returns the text of a string value.
func unquote(v jsondoc.Value) []byte {
	if len(v.Text) < 2 {
		return nil
	}
	if !v.Escaped {
		return v.Text[1 : len(v.Text)-1]
	}
	var s string
	if json.Unmarshal(v.Text, &s) != nil {
		return nil
	}
	return []byte(s)
}

// WithID gives a document that has none an id.
func WithID(doc []byte) []byte {
	var of map[string]json.RawMessage
	if json.Unmarshal(doc, &of) != nil || of["id"] != nil {
		return doc
	}
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	id := fmt.Sprintf(`{"id":"%x-%x-%x-%x-%x"`, b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	if len(of) > 0 {
		id += ","
	}
	return append([]byte(id), strings.TrimLeft(string(doc), " \t\r\n")[1:]...)
}

// Stored returns the document as the store keeps it.
func (w *Written) Stored(rid string, now time.Time) []byte {
	b := make([]byte, 0, len(w.body)+SystemBytes/2)
	b = append(b, w.body...)
	if !w.empty {
		b = append(b, ',')
	}
	b = append(b, `"_rid":"`...)
	b = append(b, rid...)
	b = append(b, `","_ts":`...)
	b = strconv.AppendInt(b, now.Unix(), 10)
	return append(b, '}')
}

var ridMember = []byte(`"_rid":"`)

// RIDOf returns the resource id of a stored document, "" if it was not written by the
// gateway.
func RIDOf(doc []byte) string {
	if i := bytes.LastIndex(doc, ridMember); i >= 0 {
		if rid, ok := ridAt(doc, i); ok {
			return rid
		}
	}
	rid := ""
	jsondoc.Members(doc, func(name []byte, v jsondoc.Value) {
		if string(name) == RID && v.Kind == jsondoc.KindString {
			rid = string(unquote(v))
		}
	})
	return rid
}

// ridAt returns the resource id that begins at doc[i:], if it is followed by the last
// member of the document, _ts, and nothing else.
func ridAt(doc []byte, i int) (string, bool) {
	rest := doc[i+len(ridMember):]
	const middle = `","_ts":`
	if len(rest) < resourceid.ItemChars+len(middle)+2 || string(rest[resourceid.ItemChars:resourceid.ItemChars+len(middle)]) != middle {
		return "", false
	}
	digits := rest[resourceid.ItemChars+len(middle) : len(rest)-1]
	if len(digits) == 0 || rest[len(rest)-1] != '}' || bytes.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return "", false
	}
	return string(rest[:resourceid.ItemChars]), true
}
