package workload

import (
	"fmt"
	"sync"
)

// QueryShape is the shape of the documents that queries ask for.
const QueryShape = "food"

// queries holds the texts of each kind of query on food documents: one for each
// value that is asked for.
var queries = sync.OnceValue(func() (texts [NumOps][]string) {
	add := func(op Op, format string, args ...any) { texts[op] = append(texts[op], fmt.Sprintf(format, args...)) }
	for _, maker := range foodMakers {
		add(Equal, `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = %q`, maker)
		add(First, `SELECT TOP 100 * FROM c WHERE c.manufacturer = %q`, maker)
		add(Within, `SELECT TOP 10 * FROM c WHERE c.manufacturer = %q`, maker)
		for _, state := range foodStates {
			add(Both, `SELECT VALUE COUNT(1) FROM c WHERE c.manufacturer = %q AND ARRAY_CONTAINS(c.tags, %q)`, maker, state)
		}
	}
	for least := 0; least < 600; least += 20 {
		add(Between, `SELECT VALUE COUNT(1) FROM c WHERE c.kcal >= %d AND c.kcal < %d`, least, least+300)
		add(Ordered, `SELECT TOP 100 * FROM c WHERE c.kcal >= %d AND c.kcal < %d ORDER BY c.kcal`, least, least+300)
	}
	return texts
})

// Queries returns the texts of the queries of one kind, in the query language of
// the engine; empty: the operation is no query.
func (o Op) Queries() []string { return queries()[o] }

// Queries reports whether the mix holds a query.
func (m Mix) Queries() bool {
	return m[Equal]+m[Both]+m[Between]+m[First]+m[Ordered]+m[Within] > 0
}
