package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/sql/function"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// TestExpressions: what the public queries of engine/testdata do not show.
func TestExpressions(t *testing.T) {
	for text, want := range map[string]string{
		"1 + '1'": "undefined", "1 = '1'": "undefined", "1 != '1'": "undefined", "null = null": "true", "null != undefined": "undefined",
		"[1, {a: 2}] = [1, {'a': 2}]": "true", "{a: 1, b: 2} = {b: 2, a: 1}": "true", "[1] != [2]": "true", "[1] < [2]": "undefined", "{a: undefined} = {}": "true",
		"true AND undefined": "undefined", "false AND undefined": "false", "true OR undefined": "true", "NOT undefined": "undefined", "NOT 1": "undefined",
		"1 IN (2, 'a')": "undefined", "1 IN (1, 'a')": "true", "1 NOT IN (2, 3)": "true", "'b' BETWEEN 'a' AND 'c'": "true", "2 NOT BETWEEN 1 AND 3": "false",
		"null ?? 1": "null", "undefined ?? 1": "1", "undefined ? 1 : 2": "2", "'a' || 'b' || 'c'": `"abc"`,
		"7 & 3 | 8": "11", "5 ^ 1": "4", "~5": "-6", "1 << 31": "-2147483648", "-1 >>> 28": "15", "-16 >> 2": "-4", "4294967297 | 0": "1",
		"7 % 3": "1", "-7 % 3": "-1", "1 / 0": "1e999", "0 / 0": "NaN", "[0 / 0, 1]": "[1]", "2 + 3 * 4 - 1": "13", "-(-3)": "3",
		"[1, 2, 3][1]": "2", "[1][5]": "undefined", "[1][-1]": "undefined", "[1][0.5]": "undefined", "{a: {b: 7}}.a['b']": "7", "{a: 1}['a' || '']": "1",
		"'abc' LIKE 'a%'": "true", "'abc' LIKE '_b_'": "true", "'abc' LIKE '[a-c]__'": "true", "'abc' LIKE '[^a]%'": "false", "'a%' LIKE 'a!%' ESCAPE '!'": "true",
		"'ab' LIKE 'a!%' ESCAPE '!'": "false", "1 LIKE 'a'": "undefined", "'é' LIKE '_'": "true", "'' LIKE '%'": "true", "'abc' NOT LIKE 'b%'": "true", "'a[' LIKE 'a['": "true",
		"ARRAY_CONTAINS_ANY([1, 2], 3, 2)": "true", "ARRAY_CONTAINS_ALL([1, 2], 2, 1)": "true", "ARRAY_CONTAINS_ALL([1, 2], 2, 3)": "false",
		"ARRAY_MAX([1, 'a', null])": `"a"`, "ARRAY_MIN([])": "undefined", "ARRAY_MEDIAN([4, 1, 3, 2])": "2.5", "ARRAY_AVG([1, 2])": "1.5", "ARRAY_SUM([])": "0", "ARRAY_SUM(['a'])": "undefined",
		"ARRAY_AVG([1e308, 1e308]) = 1e308": "true", "ARRAY_SUM([1e308, 1e308, -1e308]) = 1e308": "true", "ARRAY_MEDIAN([-1e308, 1e308])": "0", "ARRAY_MEDIAN([Infinity, Infinity]) = Infinity": "true",
		"SetDifference([1, 2, 2, 3], [3])": "[1,2]", "SetEqual([1, 2], [2, 1, 1])": "true", "ARRAY_CONTAINS([{a: {b: 1, c: 2}}], {a: {b: 1}}, true)": "true",
		"CONTAINS_ANY_CI('Hello World', 'x', 'WORLD')": "true", "CONTAINS_ALL_CS('Hello World', 'Hello', 'world')": "false", "CONTAINS_ANY_CS('abc', 'b')": "true", "CONTAINS_ALL_CI('abc', 'B', 'C')": "true",
		"FullTextContains('The Red bicycle, new', 'red')": "true", "FullTextContains('The Red bicycle', 'RED BICYCLE')": "true", "FullTextContains('red new bicycle', 'red bicycle')": "false", "FullTextContains('bored', 'red')": "false",
		"FullTextContains('a', '')": "false", "FullTextContains('a', '!')": "false", "FullTextContains('', 'a')": "false", "FullTextContains(1, 'a')": "undefined", "FullTextContains('a', undefined)": "undefined", "FullTextContains('Élan', 'élan')": "true",
		"FullTextContainsAll('a-b c', 'c', 'a b')": "true", "FullTextContainsAll('a b', 'a', 'c')": "false", "FullTextContainsAny('a b', 'c', 'b')": "true", "FullTextContainsAny('a b', 'c', '')": "false", "FullTextContainsAll('a b', 'a', '')": "false",
		"LASTINDEXOF('abcabc', 'bc')": "4", "LASTINDEXOF('abc', 'x')": "-1", "INDEX_OF('aéb', 'b')": "2", "LENGTH('😀é')": "2", "REVERSE('aé😀')": `"😀éa"`, "SUBSTRING('aébc', 1, 2)": `"éb"`, "LEFT('ab', -1)": `""`,
		"STRINGJOIN(['a', 'b'], '-')": `"a-b"`, "STRINGJOIN(['a', 1], '-')": "undefined", "STRINGSPLIT('a,b,', ',')": `["a","b",""]`, "STRINGSPLIT('ab', '')": `["ab"]`, "REPLACE('aa', '', 'b')": "undefined",
		"ToString([1, {'a': 'x'}])": `"[1,{\"a\":\"x\"}]"`, "ToString(null)": `"null"`, "StringToArray('[1, [2]]')[1][0]": "2", "StringToNumber('1e')": "undefined", "StringToObject('{\"a\":[1]}').a[0]": "1",
		"StringToObject('{\"a\":1,\"\\\\u0061\":2}')": "undefined", "StringToArray('[\"\\\\ud800\"]')": "undefined", "StringToArray('[\"\\\\ud83d\\\\ude00\"]')[0] = '😀'": "true",
		"IntAdd(9007199254740993, 1)": "9007199254740994", "IntMul(9223372036854775807, 2)": "-2", "IntDiv(7, 0)": "undefined", "IntBitNot(0)": "-1", "IntSub(1.5, 1)": "undefined",
		"IS_INTEGER(9223372036854775807)": "true", "IS_DATETIME('2020-13-01')": "false", "IS_DATETIME('2020-01-01T00:00:00Z')": "true", "IS_DATETIME('2020-01-01T00:00:00,5Z')": "false", "IS_DATETIME('2020-01-01T0:00:00Z')": "false", "DateTimeToTicks('2020-01-01T7:30')": "undefined", "IS_DEFINED(undefined)": "false", "IS_PRIMITIVE(null)": "true",
		"NumberBin(-3.5, 2)": "-4", "LOG(8, 2)": "3", "SIGN(-0.5)": "-1", "ROUND(-2.5)": "-3", "POWER(2, 0.5) > 1.41": "true",
		"DateTimeAdd('mm', 1, '2020-01-31T00:00:00.0000000Z')": `"2020-02-29T00:00:00.0000000Z"`, "DateTimeAdd('ns', 150, '2020-01-01')": `"2020-01-01T00:00:00.0000001Z"`,
		"DateTimeAdd('yyyy', 9000, '2020-01-01')": "undefined", "DateTimeDiff('ns', '2020-01-01', '2020-01-01T00:00:00.0000003Z')": "300", "DateTimeDiff('mi', '2020-01-01T00:00:59', '2020-01-01T00:01:00')": "1",
		"DateTimeBin('2020-01-01', 'day', 20000000)": `"1970-01-01T00:00:00.0000000Z"`, "DateTimeBin('1969-12-31', 'dd', 2147483647)": "undefined", "DateTimeBin('1969-12-31', 'yyyy', 2147483647)": "undefined",
		"DateTimeBin('2020-01-01', 'yyyy', 2147483647)": `"1970-01-01T00:00:00.0000000Z"`, "DateTimeBin('9999-12-31', 'mcs', 2147483647, '0001-01-01') > '9999-12-30'": "true",
		"DateTimeBin('2020-05-17T10:00:00', 'month', 3)": `"2020-04-01T00:00:00.0000000Z"`, "DateTimeBin('1969-12-31T23:59:59', 'hh')": `"1969-12-31T23:00:00.0000000Z"`,
		"DateTimeFormat('2020-05-07T09:03:02.1230000Z', 'yyyy-MM-dd HH:mm:ss.fff')": `"2020-05-07 09:03:02.123"`, "DateTimeFormat('2020-05-07T15:03:02Z', 'd MMM yy, h:m tt')": `"7 May 20, 3:3 PM"`,
		"YEAR('2020-05-07')": "2020", "MONTH('2020-05-07')": "5", "DAY('2020-05-07')": "7", "DateTimeFromParts(2021, 2, 29)": "undefined", "TicksToDateTime(1e18) = undefined": "undefined",
		"RegexMatch('aXb', 'x', 'i')": "true", "RegexMatch('a', '(')": "undefined", "RegexMatch('a', 'a', 'q')": "undefined", "RegexMatch('a\\nb', '^b', 'm')": "true",
		"CHOOSE(3, 'a', 'b')": "undefined", "IIF(1, 2, 3)": "3", "DOCUMENTID({_rid: 'AAAAAAAAAAAHAAAAAAAAAA=='})": "7", "CONCAT('a', 1)": "undefined", "TRIM('xxaxx', 'x')": `"a"`,
	} {
		e, err := syntax.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		v, ok := Constant(e, Options{})
		if got := v.String(); !ok || got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// run returns the results of a query for one document.
func run(t *testing.T, text, doc string) ([]string, error) {
	t.Helper()
	return runUntil(t.Context(), t, text, doc, Options{})
}

// runUntil is run until a context ends.
func runUntil(ctx context.Context, t *testing.T, text, doc string, o Options) ([]string, error) {
	t.Helper()
	tree, err := syntax.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Compile(text, tree, o)
	if err != nil {
		return nil, err
	}
	var list []string
	at := time.Date(2020, 1, 2, 3, 4, 5, 600, time.UTC)
	f := q.NewFrame(at, func() time.Time { return at.Add(time.Second) })
	f.SetContext(ctx)
	err = q.Run(f, value.Parse([]byte(doc)), func(v value.Value) bool {
		list = append(list, v.String())
		return true
	})
	return list, err
}

// TestPresentTime: static functions give the time of the query, others that of the clock.
func TestPresentTime(t *testing.T) {
	got, err := run(t, "SELECT VALUE [GetCurrentDateTimeStatic(), GetCurrentDateTime(), NOW(), Ago('dd', 1), GetCurrentTimestampStatic(), GetCurrentTimestamp() - GetCurrentTimestampStatic(), GetCurrentTicks() - GetCurrentTicksStatic()]", "{}")
	const want = `["2020-01-02T03:04:05.0000006Z","2020-01-02T03:04:06.0000006Z","2020-01-02T03:04:06.0000006Z","2020-01-01T03:04:06.0000006Z",1577934245000,1000,10000000]`
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got  %v, error %v\nwant %s", got, err, want)
	}
}

// TestTooMuch: joins of arrays, subqueries and strings that grow end with an error, and so do
// several results of a subquery in an expression.
func TestTooMuch(t *testing.T) {
	doc := `{"a":[` + strings.Repeat("1,", 199) + `1]}`
	double := "'" + strings.Repeat("x", 1000) + "'"
	for range 20 {
		double = "(SELECT VALUE s || s FROM (SELECT VALUE " + double + " FROM c) AS s)"
	}
	for _, text := range []string{
		"SELECT VALUE COUNT(1) FROM c JOIN p IN c.a JOIN q IN c.a JOIN r IN c.a JOIN s IN c.a",
		"SELECT VALUE EXISTS(SELECT VALUE 1 FROM p IN c.a JOIN q IN c.a JOIN r IN c.a JOIN s IN c.a WHERE p + q + r + s > 4) FROM c",
		"SELECT VALUE ARRAY(SELECT VALUE [p, q, r] FROM p IN c.a JOIN q IN c.a JOIN r IN c.a) FROM c",
		"SELECT VALUE (SELECT VALUE MAKELIST([p, q, r]) FROM p IN c.a JOIN q IN c.a JOIN r IN c.a) FROM c",
		"SELECT VALUE LENGTH(" + double + ") FROM c",
	} {
		if got, err := run(t, text, doc); !errors.Is(err, fault.ErrTooLarge) {
			t.Errorf("%.100s: %d results, error %v", text, len(got), err)
		}
	}
	_, err := run(t, "SELECT VALUE\n (SELECT VALUE p FROM p IN c.a) FROM c", doc)
	if !errors.Is(err, fault.ErrInvalid) || !strings.HasPrefix(err.Error(), "line 2, column 2: the subquery has more than one result") {
		t.Errorf("error %v", err)
	}
}

// large is a document with a text of 1 MiB and arrays of 40 and of 20 elements.
func large() string {
	return `{"a":[` + strings.Repeat("1,", 39) + `1],"b":[` + strings.Repeat("1,", 19) + `1],"z":"` + strings.Repeat("x", 1<<20) + `"}`
}

// TestTooLarge: what values hold counts, in arrays, objects, rows and arguments, as long as they are held and
// once.
func TestTooLarge(t *testing.T) {
	doc := large()
	columns := make([]string, 1000)
	for i := range columns {
		columns[i] = fmt.Sprintf("c AS c%d", i)
	}
	list := func(n int, text string) string { return strings.Repeat(text+", ", n-1) + text }
	for _, text := range []string{
		"SELECT VALUE [" + list(1000, "c.z") + "] FROM c",
		"SELECT VALUE ARRAY(SELECT VALUE c.z FROM i IN c.a) FROM c",
		"SELECT " + strings.Join(columns, ", ") + " FROM c",
		"SELECT VALUE CHOOSE(1, " + list(1000, "c.z") + ") FROM c",
	} {
		if got, err := run(t, text, doc); !errors.Is(err, fault.ErrTooLarge) {
			t.Errorf("%.60s: %d results, error %v", text, len(got), err)
		}
	}
	for text, results := range map[string]int{
		"SELECT VALUE [" + list(40, "CONTAINS(c.z, 'y')") + "] FROM c":                                     1,
		"SELECT VALUE LENGTH(x.z) FROM (SELECT c.z AS z FROM c JOIN i IN c.a) AS x":                        40,
		"SELECT VALUE LENGTH(x.z) FROM c JOIN (SELECT c.z AS z, i AS i FROM i IN c.b ORDER BY i ASC) AS x": 20,
		"SELECT VALUE 1 FROM c JOIN i IN c.a WHERE CONCAT(c.z, TOSTRING(i)) = 'y'":                         0,
		"SELECT VALUE CONCAT(c.z, TOSTRING(i)) = 'y' ? 1 : undefined FROM c JOIN i IN c.a":                 0,
		"SELECT DISTINCT VALUE LENGTH(CONCAT(c.z, TOSTRING(i))) FROM c JOIN i IN c.a":                      1,
		"SELECT VALUE SUM(LENGTH(CONCAT(c.z, TOSTRING(i)))) FROM c JOIN i IN c.a":                          1,
	} {
		if got, err := run(t, text, doc); err != nil || len(got) != results {
			t.Errorf("%.60s: %d results, error %v", text, len(got), err)
		}
	}
}

// askedContext is done once its Err has been asked more than left times.
type askedContext struct {
	context.Context
	left int
}

func (c *askedContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestEnds: an evaluation ends with its context, in joins and in functions of large values, and does not
// look at large values after that.
func TestEnds(t *testing.T) {
	doc := large()
	for _, text := range []string{
		"SELECT VALUE COUNT(1) FROM c JOIN p IN c.a JOIN q IN c.a JOIN r IN c.a",
		"SELECT VALUE SUM(LENGTH(p = 1 ? c.z : p)) FROM c JOIN p IN c.a",
		"SELECT VALUE LENGTH(CONCAT(z, 'x')) FROM c JOIN (SELECT VALUE c.z FROM i IN c.b) AS z",
		"SELECT VALUE COUNT(c.z LIKE '%[a-cd-fg-hi-w]y') FROM c",
	} {
		ctx := &askedContext{t.Context(), 10}
		got, err := runUntil(ctx, t, text, doc, Options{})
		if !errors.Is(err, context.Canceled) || ctx.left != -1 {
			t.Errorf("%s: %v, error %v, asked %d times after the end", text, got, err, -1-ctx.left)
		}
		if _, err = run(t, text, doc); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestFolding: constants are computed until that has taken too much, in several compilations together.
// Later ones are computed for each document.
func TestFolding(t *testing.T) {
	slow := "'" + strings.Repeat("a", 2000) + "' LIKE '%" + strings.Repeat("a", 1000) + "b'" // a million steps
	spent := new(int64)
	o := Options{Folded: spent}
	for range 40 {
		e, err := syntax.ParseExpr("[" + strings.Repeat(slow+", ", 9) + slow + "]")
		if err != nil {
			t.Fatal(err)
		}
		Constant(e, o)
	}
	if most := int64(maxFolding + function.MaxMade + 64*function.MaxSteps); *spent < maxFolding || *spent > most {
		t.Errorf("constants have looked at %d bytes, at most %d are expected", *spent, most)
	}
	if e, _ := syntax.ParseExpr("1 + 1"); e != nil {
		if v, ok := Constant(e, o); ok {
			t.Errorf("%v was computed", v)
		}
	}
	got, err := runUntil(t.Context(), t, "SELECT VALUE [1 + 1, 'ab' LIKE 'a%'] FROM c", "{}", o)
	if err != nil || !slices.Equal(got, []string{"[2,true]"}) {
		t.Errorf("%v, error %v", got, err)
	}
}

// TestFoldingEnds: one constant that takes too long is not computed to its end, but for each document, where a
// context ends it.
func TestFoldingEnds(t *testing.T) {
	text := "SELECT VALUE REGEXMATCH('" + strings.Repeat("a", 1<<16) + "', '" + strings.Repeat("x{1000}", 6) + "') FROM c"
	spent := new(int64)
	got, err := runUntil(t.Context(), t, text, "{}", Options{Folded: spent})
	if err != nil || !slices.Equal(got, []string{"false"}) {
		t.Errorf("%v, error %v", got, err)
	}
	if most := int64(maxFolding + 1<<20); *spent > most {
		t.Errorf("a constant has looked at %d bytes, at most %d are expected", *spent, most)
	}
	if got, err = runUntil(&askedContext{t.Context(), 10}, t, text, "{}", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, error %v", got, err)
	}
}

// TestManyItems: the cost of an ORDER BY does not grow with the product of its parts and the columns of
// SELECT DISTINCT.
func TestManyItems(t *testing.T) {
	items := make([]string, 300)
	for i := range items {
		items[i] = fmt.Sprintf("c.m%d", i)
	}
	text := "SELECT DISTINCT " + strings.Join(items, ", ") + " FROM c ORDER BY " + strings.Join(items, " + ")
	tree, err := syntax.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(1, func() {
		if _, err := Compile(text, tree, Options{}); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 50_000 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestExtremesOfNaN: MIN and MAX pass over NaN wherever it comes.
func TestExtremesOfNaN(t *testing.T) {
	for doc, want := range map[string]string{`[0,2,3]`: "[2,3]", `[2,0,3]`: "[2,3]", `[3,2,0]`: "[2,3]", `[0]`: "[]", `[]`: "[]"} {
		got, err := run(t, "SELECT VALUE [MIN(i * i / i), MAX(i * i / i)] FROM i IN c.a", `{"a":`+doc+`}`)
		if err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, error %v, want %s", doc, got, err, want)
		}
	}
}

// TestRefused: what has no meaning is refused where it stands.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT d.a FROM c":                                    "column 8: d is not the name of a source: expected c",
		"SELECT VALUE c.a":                                     "column 14: c is not the name of a source: there is no FROM that names a source",
		"SELECT VALUE NOSUCH(1)":                               "column 14: there is no function NOSUCH",
		"SELECT VALUE LEFT('a')":                               "column 14: LEFT takes 2 arguments, 1 given",
		"SELECT VALUE ST_DISTANCE(1, 2)":                       "column 14: ST_DISTANCE is not available: there are no spatial functions",
		"SELECT VALUE FullTextScore(c.a, 'x') FROM c":          "column 14: FULLTEXTSCORE is not available: results are not ranked by scores",
		"SELECT VALUE udf.f(1)":                                "column 14: there is no function udf.f",
		"SELECT c.a, d.a FROM c JOIN d IN c.d":                 "column 13: two columns are named a: name one of them with AS",
		"SELECT * FROM c JOIN d IN c.d":                        "column 1: SELECT * needs exactly one source, which has a name: name the columns",
		"SELECT c.a FROM c WHERE COUNT(1) > 1":                 "column 25: COUNT is an aggregate: it stands in SELECT or ORDER BY only",
		"SELECT c.a, COUNT(1) FROM c GROUP BY c.b":             "column 8: c.a is neither in an aggregate nor one of GROUP BY",
		"SELECT VALUE SUM(c.a, 1) FROM c":                      "column 14: SUM takes 1 argument, 2 given",
		"SELECT VALUE SUM(COUNT(c.a)) FROM c":                  "column 18: COUNT is an aggregate: it stands in SELECT or ORDER BY only",
		"SELECT 1 FROM c JOIN c IN c.d":                        "column 22: two sources are named c",
		"SELECT DISTINCT c.a FROM c ORDER BY c.b":              "column 37: with DISTINCT, expected an ORDER BY of what SELECT lists",
		"SELECT DISTINCT c.a FROM c ORDER BY RAND()":           "column 37: with DISTINCT, expected an ORDER BY of what SELECT lists",
		"SELECT VALUE c.a LIKE 'x' ESCAPE 'ab' FROM c":         "column 34: expected a string of one character after ESCAPE, found \"ab\"",
		"SELECT VALUE x FROM (SELECT VALUE COUNT(1) FROM c) x": "column 22: a subquery of all documents has no DISTINCT, TOP, GROUP BY, ORDER BY, OFFSET, LIMIT or aggregates: these belong to the outer query",
		"SELECT VALUE @p":                                      "column 14: parameter @p is not given",
		"SELECT VALUE (SELECT TOP @n VALUE 1) FROM c":          "column 26: parameter @n is not given",
		"SELECT c.a FROM c OFFSET @m LIMIT 1":                  "column 26: parameter @m is not given",
		"SELECT c.a FROM c OFFSET 1 LIMIT @n":                  "column 34: parameter @n is not given",
		"SELECT VALUE DOCUMENTETAG(d) FROM c JOIN d IN c.d":    "column 14: DOCUMENTETAG takes the name of the document",
		"SELECT VALUE DOCUMENTETAG(c.a) FROM c":                "column 14: DOCUMENTETAG takes the name of the document",
		"SELECT VALUE DOCUMENTETAG(1)":                         "column 14: DOCUMENTETAG takes the name of the document",
		"SELECT DOCUMENTETAG(c) FROM c GROUP BY c.b":           "column 21: c is neither in an aggregate nor one of GROUP BY",
	} {
		if _, err := run(t, text, "{}"); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}
