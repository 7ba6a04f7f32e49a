package gateway

import (
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

// appendResult appends a result as clients get it: the whole documents in it have all system members.
func (k *container) appendResult(dst, result []byte, etag engine.ETag, at *statement.Shape) []byte {
	switch {
	case at == nil:
		return append(dst, result...)
	case at.Whole:
		return k.appendItem(dst, result, etag, 0)
	}
	before := byte('{')
	jsondoc.Members(result, func(name []byte, v jsondoc.Value) {
		dst = append(jsondoc.AppendString(append(dst, before), string(name)), ':')
		dst, before = k.appendResult(dst, v.Text, etag, at.Members[string(name)]), ','
	})
	return append(dst, '}')
}
