package gateway

import (
	"bytes"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/computed"
	"github.com/cleavestore/cleave/gateway/internal/statement"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// parse reads a query over the items of the container.
func (k *container) parse(text string, parameters map[string]any) (*statement.Statement, error) {
	text, err := computed.Put(text, k.record.Definition.ComputedProperties, k.self())
	if err == nil {
		var s *statement.Statement
		if s, err = statement.Parse(text, parameters); err == nil {
			return s, nil
		}
	}
	return nil, &failure{status: 400, msg: err.Error()}
}

// appendPayload appends a result whose last member, payload, is a whole document.
func (k *container) appendPayload(dst, row []byte, etag engine.ETag) []byte {
	var document []byte
	jsondoc.Members(row, func(name []byte, v jsondoc.Value) {
		document = nil
		if string(name) == "payload" && v.Kind == jsondoc.KindObject {
			document = v.Text
		}
	})
	if document == nil || !bytes.HasSuffix(row[:len(row)-1], document) {
		return append(dst, row...)
	}
	dst = append(dst, row[:len(row)-1-len(document)]...)
	return append(k.appendItem(dst, document, etag, 0), '}')
}
