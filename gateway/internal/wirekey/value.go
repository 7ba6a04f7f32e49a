package wirekey

import (
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// OfValue returns the key of one level that a value of a query is, the zero key if it is none.
func OfValue(v query.Value) partmap.Key {
	switch v.Kind {
	case jsondoc.KindNull:
		return partmap.Null()
	case jsondoc.KindBool:
		return partmap.Bool(v.Bool)
	case jsondoc.KindNumber:
		return partmap.Number(v.Number)
	case jsondoc.KindString:
		return partmap.String(v.Text)
	}
	return partmap.Key{}
}
