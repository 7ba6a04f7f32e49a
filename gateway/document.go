package gateway

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// System members. The gateway stores a document with _rid and _ts as its last two members,
// so that queries can use them, and adds the others to what it returns. What a client
// writes at these names is dropped.
const (
	memberRID         = "_rid"
	memberTS          = "_ts"
	memberSelf        = "_self"
	memberETag        = "_etag"
	memberAttachments = "_attachments"
	memberLSN         = "_lsn"
)

func isSystemMember(name []byte) bool {
	switch string(name) {
	case memberRID, memberTS, memberSelf, memberETag, memberAttachments, memberLSN:
		return true
	}
	return false
}

// written is a document as a client sends it, taken apart.
type written struct {
	body   []byte // without system members, up to the closing brace
	empty  bool   // it has no members
	id     string // "": it has none that is a string
	hasTTL bool
}

// readWritten takes a document apart. It checks that the document is a JSON object; the
// store checks the rest.
func readWritten(doc []byte) (w written, bad *failure) {
	doc = bytes.TrimSpace(doc)
	if len(doc) == 0 || doc[0] != '{' || !json.Valid(doc) {
		return w, invalidDocument(doc)
	}
	if len(doc) > itemBytes {
		return w, failf(413, "the document has %d bytes, the limit is %d", len(doc), itemBytes)
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
		case isSystemMember(plain):
			dropped = true
			continue
		case string(plain) == "id" && value.Kind == jsondoc.KindString:
			w.id = string(unquote(value))
		case string(plain) == "ttl":
			w.hasTTL = true
		}
		w.empty = false
	}
	if !dropped {
		w.body = bytes.TrimRight(doc[:len(doc)-1], " \t\r\n")
		return w, nil
	}
	w.body = append(make([]byte, 0, len(doc)), '{')
	walk = jsondoc.Walk(doc)
	walk.Next()
	for {
		name := walk.Whole()
		if name.Kind == jsondoc.KindUndefined {
			return w, nil
		}
		value := walk.Whole()
		if isSystemMember(unquote(name)) {
			continue
		}
		if len(w.body) > 1 {
			w.body = append(w.body, ',')
		}
		w.body = append(append(append(w.body, name.Text...), ':'), value.Text...)
	}
}

// invalidDocument says what is wrong with a document that is not a JSON object.
func invalidDocument(doc []byte) *failure {
	var at *json.SyntaxError
	var any map[string]json.RawMessage
	switch err := json.Unmarshal(doc, &any); {
	case len(doc) == 0:
		return badf("the body is empty: a JSON object is wanted")
	case asError(err, &at):
		return badf("the body is not JSON: %v at byte %d", err, at.Offset)
	}
	return badf("the body is not a JSON object")
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

// stored returns the document as the store keeps it.
func (w *written) stored(rid string, now time.Time) []byte {
	b := make([]byte, 0, len(w.body)+systemBytes/2)
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

// ridOf returns the resource id of a stored document, "" if it was not written by the
// gateway.
func ridOf(doc []byte) string {
	if i := bytes.LastIndex(doc, ridMember); i >= 0 {
		if rid, ok := ridAt(doc, i); ok {
			return rid
		}
	}
	rid := ""
	jsondoc.Members(doc, func(name []byte, v jsondoc.Value) {
		if string(name) == memberRID && v.Kind == jsondoc.KindString {
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

// appendItem appends a stored document as clients get it. lsn is that of the change in a
// change feed, 0 elsewhere.
func (k *container) appendItem(dst, doc []byte, etag engine.ETag, lsn uint64) []byte {
	rid := ridOf(doc)
	doc = bytes.TrimRight(doc, " \t\r\n")
	if len(doc) < 2 {
		return append(dst, doc...)
	}
	dst = append(dst, doc[:len(doc)-1]...)
	dst = append(dst, `,"_self":"dbs/`...)
	dst = append(dst, resourceid.Database(k.db.record.Number)...)
	dst = append(dst, `/colls/`...)
	dst = append(dst, k.rid...)
	dst = append(dst, `/docs/`...)
	dst = append(dst, rid...)
	dst = append(dst, `/","_etag":`...)
	dst = strconv.AppendQuote(dst, etag.String())
	dst = append(dst, `,"_attachments":"attachments/"`...)
	if lsn != 0 {
		dst = append(dst, `,"_lsn":`...)
		dst = strconv.AppendUint(dst, lsn, 10)
	}
	return append(dst, '}')
}

// ttl returns how long an item lives that is written to the container: 0 if the document
// or the definition of the container of the store says it. A container that an older build
// has made has no default in the store, so each write says it.
func (k *container) ttl(w *written) time.Duration {
	switch t := k.record.Definition.DefaultTTL; {
	case k.mutable:
		return 0
	case t == nil:
		return engine.NoExpiry
	case *t > 0 && !w.hasTTL:
		return time.Duration(*t) * time.Second
	}
	return 0
}
