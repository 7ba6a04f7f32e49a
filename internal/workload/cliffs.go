package workload

import (
	"fmt"
	"strconv"
	"strings"
)

// Stalls is the name of the workload that measures what writes wait for.
const Stalls = "stalls"

// QueryCliffs is the name of the workload that measures the shapes of queries whose work
// once bore no relation to their results.
const QueryCliffs = "query-cliffs"

// Cliff is a shape of a query that could be answered with little work by an index.
type Cliff struct {
	Name string
	Text string // with the limit, if it has one
	// Page is the number of results of a page, if the query is read to its end in pages
	// and compared with one that gives all results at once; Text then has no limit. 0: it
	// is asked once.
	Page int
	// Share is the most that the query may cost, as a share of a scan of all documents; for
	// one that is read in pages, as a multiple of the query that gives all results at once.
	Share float64
	// Composite is the text of the composite index that has the order of the query, if that is of several
	// paths: /a,/b desc. With it the pages cost at most twice the whole.
	Composite string
}

// CliffDocument appends document i of n for the cliffs.
//
//	u        a number that no other document has, in no order
//	name     a text that no other document has
//	half     0 or 1
//	tenth    0 to 9
//	g        one of n/3 numbers
//	country  one of 40, some with many documents
//	state    one of 10
//	note     40 % of the documents have one
//	url      a text that no other document has, with the same first 65 bytes
func CliffDocument(dst []byte, i, n int) []byte {
	u := scramble(uint64(i), 40) % 1_000_000_007
	country := min(u%40, u/40%40)
	dst = fmt.Appendf(dst, `{"id":"%06d","k":"k%d","u":%d,"name":"name %d of a document","half":%d,"tenth":%d,"g":%d,"country":"c%02d","state":"s%d"`,
		i, i%97, i*7919%n, u, u/7%2, u/11%10, u/13%uint64(max(1, n/3)), country, u/17%10)
	if u%5 < 2 {
		dst = append(append(dst, `,"note":"`...), strconv.FormatUint(u, 36)...)
		dst = append(dst, '"')
	}
	dst = fmt.Appendf(dst, `,"url":"https://store.example.com/tenants/northern-europe/documents/byno/%d"`, u)
	return append(dst, `,"text":"read, and not asked for"}`...)
}

// Cliffs returns the shapes for n documents.
func Cliffs(n int) []Cliff {
	var in strings.Builder
	for i := range min(n/28, 9_990) {
		if i > 0 {
			in.WriteByte(',')
		}
		fmt.Fprint(&in, (i*28+5)%n)
	}
	some := 40.0 / float64(n) // of a scan: a few dozen documents
	return []Cliff{
		{Name: "range", Text: `SELECT TOP 10 * FROM c WHERE c.u > 10`, Share: some},
		{Name: "not-equal", Text: `SELECT TOP 10 * FROM c WHERE c.u != 10`, Share: some},
		{Name: "is-defined", Text: `SELECT TOP 10 * FROM c WHERE IS_DEFINED(c.u)`, Share: some},
		{Name: "starts-with", Text: `SELECT TOP 10 * FROM c WHERE STARTSWITH(c.name, 'name')`, Share: some},
		{Name: "contains", Text: `SELECT TOP 1 * FROM c WHERE CONTAINS(c.name, 'name')`, Share: some},
		{Name: "in-first", Text: `SELECT TOP 1 * FROM c WHERE c.u IN (` + in.String() + `)`, Share: 4 * some},
		{Name: "in-count", Text: `SELECT VALUE COUNT(1) FROM c WHERE c.u IN (` + in.String() + `)`, Share: 0.1},
		{Name: "order", Text: `SELECT TOP 10 * FROM c ORDER BY c.u`, Share: some},
		{Name: "order-falling", Text: `SELECT TOP 10 * FROM c ORDER BY c.name DESC`, Share: some},
		{Name: "order-of-any", Text: `SELECT TOP 10 * FROM c WHERE CONTAINS(c.name, 'name') ORDER BY c.u`, Share: some},
		{Name: "order-of-tenth", Text: `SELECT TOP 10 * FROM c WHERE CONTAINS(c.name, '7 of') ORDER BY c.u`, Share: 20 * some},
		{Name: "order-of-range", Text: `SELECT TOP 10 * FROM c WHERE c.u > 10 ORDER BY c.name`, Share: some},
		{Name: "extremes", Text: `SELECT MIN(c.u) AS u, MAX(c.name) AS name FROM c`, Share: some},
		{Name: "group", Text: `SELECT TOP 10 c.g, COUNT(1) AS n FROM c GROUP BY c.g`, Share: some},
		{Name: "group-of-sums", Text: `SELECT TOP 10 c.g, SUM(c.u) AS u FROM c GROUP BY c.g`, Share: 4 * some},
		{Name: "group-of-two", Text: `SELECT TOP 10 c.g, c.state, COUNT(1) AS n FROM c GROUP BY c.g, c.state`, Share: 4 * some},
		{Name: "distinct", Text: `SELECT DISTINCT TOP 10 c.u FROM c`, Share: some},
		{Name: "value-absent", Text: `SELECT TOP 10 VALUE c.absent FROM c`, Share: some},
		{Name: "value-order", Text: `SELECT TOP 10 VALUE c.note FROM c ORDER BY c.note`, Share: some},
		{Name: "offset", Text: fmt.Sprintf(`SELECT * FROM c ORDER BY c.u OFFSET %d LIMIT 10`, n), Share: 2},

		{Name: "range-pages", Text: `SELECT * FROM c WHERE c.u > 10`, Page: 100, Share: 2},
		{Name: "tenth-pages", Text: fmt.Sprintf(`SELECT * FROM c WHERE c.u < %d`, n/10), Page: 100, Share: 2},
		{Name: "contains-pages", Text: `SELECT * FROM c WHERE CONTAINS(c.name, '7 of')`, Page: 100, Share: 2},
		{Name: "absent-pages", Text: `SELECT * FROM c WHERE NOT IS_DEFINED(c.note)`, Page: 100, Share: 2},
		{Name: "order-pages", Text: `SELECT * FROM c ORDER BY c.u`, Page: 100, Share: 2},
		{Name: "order-alike-pages", Text: `SELECT * FROM c ORDER BY c.url`, Page: 100, Share: 2},
		{Name: "order-alike-falling-pages", Text: `SELECT * FROM c ORDER BY c.half, c.url DESC`, Page: 100, Share: 2},
		// The first page tries the filter on all documents, of which it keeps the order of a tenth.
		{Name: "order-alike-tenth-pages", Text: fmt.Sprintf(`SELECT * FROM c WHERE c.u < %d ORDER BY c.url`, n/10), Page: 100, Share: 12},
		{Name: "order-contains-pages", Text: `SELECT * FROM c WHERE CONTAINS(c.name, '7 of') ORDER BY c.u`, Page: 100, Share: 2},
		{Name: "order-two-pages", Text: `SELECT * FROM c ORDER BY c.half, c.u`, Page: 100, Share: 2, Composite: `/half,/u`},
		{Name: "order-two-falling-pages", Text: `SELECT * FROM c ORDER BY c.half, c.u DESC`, Page: 100, Share: 2, Composite: `/half,/u desc`},
		{Name: "order-three-pages", Text: `SELECT * FROM c ORDER BY c.country, c.state, c.u`, Page: 100, Share: 3, Composite: `/country,/state,/u`},
		{Name: "order-absent-pages", Text: `SELECT * FROM c ORDER BY c.note, c.u`, Page: 100, Share: 2, Composite: `/note,/u`},
		{Name: "group-of-two-pages", Text: `SELECT c.half, c.g, COUNT(1) AS n FROM c GROUP BY c.half, c.g`, Page: 100, Share: 2},
		{Name: "distinct-few-pages", Text: `SELECT DISTINCT c.half, c.tenth FROM c`, Page: 5, Share: 2},
		{Name: "group-pages", Text: `SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g`, Page: 100, Share: 2},
		{Name: "distinct-pages", Text: `SELECT DISTINCT c.u FROM c`, Page: 100, Share: 2},
		{Name: "distinct-note-pages", Text: `SELECT DISTINCT c.note FROM c`, Page: 100, Share: 2},
	}
}
