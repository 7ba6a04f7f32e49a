package eval

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// orderOf returns a document of many lines, and of members behind them.
func orderOf(lines int) string {
	var list, members []string
	for i := range lines {
		list = append(list, fmt.Sprintf(`{"sku":"a%d","count":%d}`, i, i%7))
		members = append(members, fmt.Sprintf(`"m%d":%d`, i, i))
	}
	return fmt.Sprintf(`{"id":"i","lines":[%s],"least":5,"name":"N","big":{%s}}`, strings.Join(list, ","), strings.Join(members, ","))
}

// compiled returns a query and a frame for it.
func compiled(t *testing.T, text string) (*Query, *Frame) {
	t.Helper()
	tree, err := syntax.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Compile(text, tree, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return q, q.NewFrame(time.Time{}, nil)
}

// TestRowsLookOnce: rows of a document do not look at all of it for what is the same in all of them.
func TestRowsLookOnce(t *testing.T) {
	const lines = 300
	doc := orderOf(lines)
	for _, text := range []string{
		"SELECT VALUE COUNT(1) FROM c JOIN l IN c.lines WHERE l.count > c.least",
		"SELECT c.name, l.sku, c.absent FROM c JOIN l IN c.lines",
		"SELECT VALUE l.sku FROM c JOIN l IN c.lines WHERE c.lines[0].count < l.count ORDER BY c.name",
		"SELECT l.sku, ARRAY_LENGTH(c.lines) AS n, UPPER(c.name) AS name FROM c JOIN l IN c.lines",
		"SELECT c.name, l.count, MAX(c.least) AS most FROM c JOIN l IN c.lines GROUP BY c.name, l.count",
		"SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE l FROM l IN c.lines WHERE l.count = c.absent OR l.count > c.least + 5)",
		"SELECT VALUE ARRAY(SELECT VALUE l.sku FROM l IN c.lines WHERE l.count > c.least) FROM c",
		"SELECT VALUE c.big[CONCAT('m', ToString(l.count * 40))] FROM c JOIN l IN c.lines",
		"SELECT VALUE c.lines[l.count * 40].sku FROM c JOIN l IN c.lines",
		"SELECT VALUE x FROM c JOIN (SELECT VALUE l.sku FROM l IN c.lines WHERE l.count > c.least) AS x",
	} {
		q, f := compiled(t, text)
		if err := q.Run(f, value.Parse([]byte(doc)), func(value.Value) bool { return true }); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		times := f.env.Looked() / int64(len(doc))
		t.Logf("%3d times: %s", times, text)
		if times > lines/6 {
			t.Errorf("%s: %d rows look %d times at the document", text, lines, times)
		}
	}
}

// TestRowsOfSeveralDocuments: what rows remember is that of their own document, and of the row of an
// outer source.
func TestRowsOfSeveralDocuments(t *testing.T) {
	q, f := compiled(t, "SELECT VALUE [c.n, p.n, p.n + q + c.n, (SELECT VALUE SUM(x + p.n + c.n) FROM x IN c.a)] FROM c JOIN p IN c.p JOIN q IN p.q")
	for _, test := range []struct{ doc, want string }{
		{`{"n":1,"a":[1,2],"p":[{"n":10,"q":[5,6]},{"n":20,"q":[7]}]}`, "[1,10,16,25] [1,10,17,25] [1,20,28,45]"},
		{`{"n":2,"a":[1],"p":[{"n":10,"q":[5]},{"n":30,"q":[7,8]}]}`, "[2,10,17,13] [2,30,39,33] [2,30,40,33]"},
		{`{"a":[1],"p":[{"n":10,"q":[5]}]}`, "[10,0]"},
	} {
		var got []string
		err := q.Run(f, value.Parse([]byte(test.doc)), func(v value.Value) bool { got = append(got, v.String()); return true })
		if have := strings.Join(got, " "); err != nil || have != test.want {
			t.Errorf("%s: %s, error %v, want %s", test.doc, have, err, test.want)
		}
	}
}

// TestRowsSearch: many rows find the elements and members that each looks for, and those of their own document.
func TestRowsSearch(t *testing.T) {
	q, f := compiled(t, "SELECT VALUE [c.lines[l.count * 20].sku, c.big['m' || ToString(l.count * 20)], c[l.sku = 'a1' ? 'name' : 'absent']] FROM c JOIN l IN c.lines")
	for _, lines := range []int{100, 90, 10, 130} {
		var got, want []string
		err := q.Run(f, value.Parse([]byte(orderOf(lines))), func(v value.Value) bool { got = append(got, v.String()); return true })
		for i := range lines {
			var list []string
			if at := i % 7 * 20; at < lines {
				list = []string{fmt.Sprintf(`"a%d"`, at), fmt.Sprint(at)}
			}
			if i == 1 {
				list = append(list, `"N"`)
			}
			want = append(want, "["+strings.Join(list, ",")+"]")
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d lines: error %v\n got %v\nwant %v", lines, err, got, want)
		}
	}
}

// TestRowsMakeAnew: random and present values are made anew for each row, and so is what depends on
// the row.
func TestRowsMakeAnew(t *testing.T) {
	q, f := compiled(t, "SELECT VALUE RAND() + c.n FROM c JOIN l IN c.a")
	seen := make(map[string]bool)
	err := q.Run(f, value.Parse([]byte(`{"n":1,"a":[1,2,3]}`)), func(v value.Value) bool { seen[v.String()] = true; return true })
	if err != nil || len(seen) != 3 {
		t.Errorf("%v, error %v: want three random numbers", seen, err)
	}
}

// TestEqualMakesKeysOnce: the rows of a document do not make the key of an object anew that is the same in all of
// them.
func TestEqualMakesKeysOnce(t *testing.T) {
	const lines = 300
	doc := value.Parse([]byte(orderOf(lines)))
	for _, text := range []string{
		"SELECT VALUE l.sku FROM c JOIN l IN c.lines WHERE l = c.big",
		"SELECT VALUE l.sku FROM c JOIN l IN c.lines WHERE [l] = [c.big]",
		"SELECT VALUE l.sku FROM c JOIN l IN c.lines WHERE l IN (c.big, c.id)",
		"SELECT VALUE ARRAY_CONTAINS(c.lines, c.big) FROM c",
		"SELECT VALUE ARRAY_CONTAINS(c.lines, c.big, true) FROM c",
	} {
		q, f := compiled(t, text)
		made := testing.AllocsPerRun(1, func() {
			if err := q.Run(f, doc, func(value.Value) bool { return true }); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		})
		t.Logf("%.0f allocations: %s", made, text)
		if made > 50*lines {
			t.Errorf("%s: %.0f allocations for %d rows and as many members", text, made, lines)
		}
	}
}
