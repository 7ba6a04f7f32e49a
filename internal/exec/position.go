package exec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/internal/continuation"
	"github.com/cleavestore/cleave/internal/murmur"
	"github.com/cleavestore/cleave/internal/query"
)

// Position is a place in the results of a query.
type Position = continuation.Position

var (
	ErrNeedsScan       = errors.New("query needs a scan")
	ErrBadContinuation = continuation.ErrBad
)

// Hash tells queries and their scopes apart.
func Hash(container uint32, scope string, s *query.Select) uint64 {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n%s\n%s\n%v %v\n", container, scope, s.Where, s.Value, s.Distinct)
	for _, col := range s.Columns {
		fmt.Fprintf(&b, "column %d %q %q\n", col.Func, col.Path, col.Name)
	}
	for _, p := range s.GroupBy {
		fmt.Fprintf(&b, "group %q\n", p)
	}
	for _, o := range s.OrderBy {
		fmt.Fprintf(&b, "order %q %v\n", o.Path, o.Falling)
	}
	h, _ := murmur.Sum128([]byte(b.String()))
	return h
}
