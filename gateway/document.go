package gateway

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/condition"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
)

// readDocument takes apart what a client has written.
func readDocument(doc []byte) (document.Written, *failure) {
	w, err := document.Read(doc)
	var large *document.TooLargeError
	switch {
	case errors.As(err, &large):
		return w, failf(http.StatusRequestEntityTooLarge, "%v", err)
	case err != nil:
		return w, badf("%v", err)
	}
	return w, nil
}

// appendItem appends a stored document as clients get it. lsn is that of the change in a
// change feed, 0 elsewhere.
func (k *container) appendItem(dst, doc []byte, etag engine.ETag, lsn uint64) []byte {
	rid := document.RIDOf(doc)
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
	dst = strconv.AppendQuote(dst, condition.Shown(etag))
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
func (k *container) ttl(w *document.Written) time.Duration {
	switch t := k.record.Definition.DefaultTTL; {
	case k.mutable:
		return 0
	case t == nil:
		return engine.NoExpiry
	case *t > 0 && !w.HasTTL:
		return time.Duration(*t) * time.Second
	}
	return 0
}
