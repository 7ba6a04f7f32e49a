package eval

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
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
		"SetDifference([1, 2, 2, 3], [3])": "[1,2]", "SetEqual([1, 2], [2, 1, 1])": "true", "ARRAY_CONTAINS([{a: {b: 1, c: 2}}], {a: {b: 1}}, true)": "true",
		"CONTAINS_ANY_CI('Hello World', 'x', 'WORLD')": "true", "CONTAINS_ALL_CS('Hello World', 'Hello', 'world')": "false", "CONTAINS_ANY_CS('abc', 'b')": "true", "CONTAINS_ALL_CI('abc', 'B', 'C')": "true",
		"FullTextContains('The Red bicycle, new', 'red')": "true", "FullTextContains('The Red bicycle', 'RED BICYCLE')": "true", "FullTextContains('red new bicycle', 'red bicycle')": "false", "FullTextContains('bored', 'red')": "false",
		"FullTextContains('a', '')": "false", "FullTextContains('a', '!')": "false", "FullTextContains('', 'a')": "false", "FullTextContains(1, 'a')": "undefined", "FullTextContains('a', undefined)": "undefined", "FullTextContains('Élan', 'élan')": "true",
		"FullTextContainsAll('a-b c', 'c', 'a b')": "true", "FullTextContainsAll('a b', 'a', 'c')": "false", "FullTextContainsAny('a b', 'c', 'b')": "true", "FullTextContainsAny('a b', 'c', '')": "false", "FullTextContainsAll('a b', 'a', '')": "false",
		"LASTINDEXOF('abcabc', 'bc')": "4", "LASTINDEXOF('abc', 'x')": "-1", "INDEX_OF('aéb', 'b')": "2", "LENGTH('😀é')": "2", "REVERSE('aé😀')": `"😀éa"`, "SUBSTRING('aébc', 1, 2)": `"éb"`, "LEFT('ab', -1)": `""`,
		"STRINGJOIN(['a', 'b'], '-')": `"a-b"`, "STRINGJOIN(['a', 1], '-')": "undefined", "STRINGSPLIT('a,b,', ',')": `["a","b",""]`, "STRINGSPLIT('ab', '')": `["ab"]`, "REPLACE('aa', '', 'b')": "undefined",
		"ToString([1, {'a': 'x'}])": `"[1,{\"a\":\"x\"}]"`, "ToString(null)": `"null"`, "StringToArray('[1, [2]]')[1][0]": "2", "StringToNumber('1e')": "undefined", "StringToObject('{\"a\":[1]}').a[0]": "1",
		"IntAdd(9007199254740993, 1)": "9007199254740994", "IntMul(9223372036854775807, 2)": "-2", "IntDiv(7, 0)": "undefined", "IntBitNot(0)": "-1", "IntSub(1.5, 1)": "undefined",
		"IS_INTEGER(9223372036854775807)": "true", "IS_DATETIME('2020-13-01')": "false", "IS_DATETIME('2020-01-01T00:00:00Z')": "true", "IS_DEFINED(undefined)": "false", "IS_PRIMITIVE(null)": "true",
		"NumberBin(-3.5, 2)": "-4", "LOG(8, 2)": "3", "SIGN(-0.5)": "-1", "ROUND(-2.5)": "-3", "POWER(2, 0.5) > 1.41": "true",
		"DateTimeAdd('mm', 1, '2020-01-31T00:00:00.0000000Z')": `"2020-02-29T00:00:00.0000000Z"`, "DateTimeAdd('ns', 150, '2020-01-01')": `"2020-01-01T00:00:00.0000001Z"`,
		"DateTimeAdd('yyyy', 9000, '2020-01-01')": "undefined", "DateTimeDiff('ns', '2020-01-01', '2020-01-01T00:00:00.0000003Z')": "300", "DateTimeDiff('mi', '2020-01-01T00:00:59', '2020-01-01T00:01:00')": "1",
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
		v, ok := Constant(e)
		if got := v.String(); !ok || got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// run returns the results of a query for one document.
func run(t *testing.T, text, doc string) ([]string, error) {
	t.Helper()
	tree, err := syntax.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Compile(text, tree, Options{})
	if err != nil {
		return nil, err
	}
	var list []string
	at := time.Date(2020, 1, 2, 3, 4, 5, 600, time.UTC)
	err = q.Run(q.NewFrame(at, func() time.Time { return at.Add(time.Second) }), value.Parse([]byte(doc)), func(v value.Value) bool {
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
	if err == nil || !strings.HasPrefix(err.Error(), "line 2, column 2: the subquery has more than one result") {
		t.Errorf("error %v", err)
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
		"SELECT VALUE c.a LIKE 'x' ESCAPE 'ab' FROM c":         "column 34: expected a string of one character after ESCAPE, found \"ab\"",
		"SELECT VALUE x FROM (SELECT VALUE COUNT(1) FROM c) x": "column 22: a subquery of all documents has no DISTINCT, TOP, GROUP BY, ORDER BY, OFFSET, LIMIT or aggregates: these belong to the outer query",
		"SELECT VALUE @p":                                      "column 14: parameter @p is not given",
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
